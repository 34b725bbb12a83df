//! `schemes`: what schemes there are, from the headers of their files.

use schemes::header;
use serde::Serialize;

use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::table::Columns;
use crate::render::{json, print};

/// Tell array schemes apart: what each does, survives and costs
///
/// Without a name, a list; with one, all there is to know of it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid schemes
  steadyraid schemes raid6")]
pub struct Args {
    /// Only this scheme, in full
    scheme: Option<String>,
    /// A JSON document instead of text
    #[arg(long)]
    json: bool,
    /// All schemes in full, as the page docs/schemes.md
    #[arg(long, conflicts_with_all = ["json", "scheme"])]
    markdown: bool,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Report {
    schemes: Vec<Listed>,
}

pub fn run(args: &Args) -> Outcome<Exit> {
    if args.markdown {
        print(&header::page());
        return Ok(Exit::Ok);
    }
    let asked: Vec<header::Header> = match &args.scheme {
        Some(name) => vec![header::named(name).ok_or_else(|| {
            Failure::usage(format!("'{name}'"), "no such scheme")
                .hint("'steadyraid schemes' lists them")
        })?],
        None => header::ALL.to_vec(),
    };
    if args.json {
        let listed = |header: &header::Header| Listed {
            name: header.name,
            title: header.title(),
            text: header.text(),
        };
        print(&json::document(&Report { schemes: asked.iter().map(listed).collect() }));
    } else if args.scheme.is_some() {
        print(&asked[0].text());
    } else {
        let mut columns = Columns::new(&["SCHEME", "WHAT IT IS"], &[]);
        for header in asked {
            columns.row(vec![header.name.to_owned(), header.title().to_owned()]);
        }
        print(&columns.render(0));
    }
    Ok(Exit::Ok)
}
