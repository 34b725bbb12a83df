//! The table of crates in ARCHITECTURE.md against what the manifests say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Complaint;
use super::repo::Repo;

/// A crate by what it depends on (of ours) and the root files of its targets.
#[derive(Clone, Debug, Default)]
pub struct Package {
    pub dependencies: BTreeSet<String>,
    pub dev_dependencies: BTreeSet<String>,
    /// Relative to the repository's root.
    pub targets: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Workspace {
    pub packages: BTreeMap<String, Package>,
}

impl Workspace {
    pub fn load(repo: &Repo) -> Result<Workspace, String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
            .current_dir(&repo.root)
            .output()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let metadata = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
        Ok(Workspace::from_metadata(&metadata, &repo.root))
    }

    fn from_metadata(metadata: &Value, root: &Path) -> Workspace {
        let mut workspace = Workspace::default();
        for package in list(&metadata["packages"]) {
            let mut ours = Package::default();
            // A dependency by path is one of ours.
            for dependency in list(&package["dependencies"]).filter(|d| d["path"].is_string()) {
                let is_dev = dependency["kind"] == "dev";
                let kind = if is_dev { &mut ours.dev_dependencies } else { &mut ours.dependencies };
                kind.insert(text(&dependency["name"]));
            }
            for target in list(&package["targets"]) {
                let path = text(&target["src_path"]);
                let relative = Path::new(&path).strip_prefix(root);
                let relative = relative.map(|path| path.to_string_lossy().into_owned());
                ours.targets.insert(relative.unwrap_or(path));
            }
            workspace.packages.insert(text(&package["name"]), ours);
        }
        workspace
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

/// The columns `crate` and `may use (ours)` of the table, as written.
fn table(document: &str) -> Vec<(String, String)> {
    let rows = document.lines().skip_while(|line| !line.contains("| may use (ours) |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        Some((cells.get(1)?.trim_matches('`').to_owned(), (*cells.get(3)?).to_owned()))
    })
    .collect()
}

/// What a cell allows: `–`, names, `all above` or `all but ...`.
fn allowed(cell: &str, above: &[String], all: &BTreeSet<String>) -> BTreeSet<String> {
    let named = || cell.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned);
    if cell == "all above" {
        above.iter().cloned().collect()
    } else if cell.starts_with("all but ") {
        let without: BTreeSet<String> = named().collect();
        all.difference(&without).cloned().collect()
    } else {
        named().filter(|name| !name.is_empty()).collect()
    }
}

pub fn check(workspace: &Workspace, architecture: &str) -> Vec<Complaint> {
    let rows = table(architecture);
    let names: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    let all: BTreeSet<String> = names.iter().cloned().collect();
    let mut complaints = Vec::new();
    for name in workspace.packages.keys().filter(|name| !all.contains(*name)) {
        complaints.push(format!("ARCHITECTURE.md: crate {name} is not in the table of crates"));
    }
    for (index, (name, cell)) in rows.iter().enumerate() {
        let Some(package) = workspace.packages.get(name) else {
            complaints.push(format!("ARCHITECTURE.md: there is no crate {name}"));
            continue;
        };
        let allowed = allowed(cell, &names[..index], &all);
        for dependency in package.dependencies.difference(&allowed) {
            complaints.push(format!(
                "crates/{name}/Cargo.toml: ARCHITECTURE.md does not let {name} use {dependency}"
            ));
        }
    }
    complaints.extend(check_sim_stays_out(workspace));
    complaints
}

/// The simulator may drive tests of any crate, but the product's crate never even sees it.
fn check_sim_stays_out(workspace: &Workspace) -> Option<Complaint> {
    let app = workspace.packages.get("app")?;
    let all = app.dependencies.union(&app.dev_dependencies);
    let what = "crates/app/Cargo.toml: sim stays out of app, in tests too";
    all.into_iter().any(|name| name == "sim").then(|| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
# Text
| crate | inside | may use (ours) | never |
| --- | --- | --- | --- |
| `io` | drives | – | RAID |
| `engine` | `read` | `io` | printing |
| `app` | the binary | all above | being used |
| `sim` | worlds | all but `app` | being linked |

| `not` | a | `row` | here |
";

    fn workspace(uses: &[(&str, &[&str], &[&str])]) -> Workspace {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        let package = |normal: &[&str], dev: &[&str]| Package {
            dependencies: names(normal),
            dev_dependencies: names(dev),
            targets: BTreeSet::new(),
        };
        let mut workspace = Workspace::default();
        for name in ["io", "engine", "app", "sim"] {
            workspace.packages.insert(name.to_owned(), Package::default());
        }
        for (name, normal, dev) in uses {
            workspace.packages.insert((*name).to_owned(), package(normal, dev));
        }
        workspace
    }

    fn complaints(uses: &[(&str, &[&str], &[&str])]) -> usize {
        check(&workspace(uses), TABLE).len()
    }

    #[test]
    fn what_the_table_allows_is_fine() {
        assert_eq!(
            complaints(&[("engine", &["io"], &["sim"]), ("app", &["io", "engine"], &[])]),
            0
        );
        assert_eq!(complaints(&[("sim", &["io", "engine"], &[])]), 0);
    }

    #[test]
    fn what_it_does_not_allow_is_found() {
        assert_eq!(complaints(&[("io", &["engine"], &[])]), 1);
        assert_eq!(complaints(&[("sim", &["app"], &[])]), 1);
        assert_eq!(complaints(&[("app", &["sim"], &[])]), 2);
        assert_eq!(complaints(&[("app", &[], &["sim"])]), 1, "not even in tests");
    }

    #[test]
    fn table_and_workspace_name_the_same_crates() {
        assert_eq!(complaints(&[("extra", &[], &[])]), 1);
        let mut less = workspace(&[]);
        less.packages.remove("engine");
        assert_eq!(check(&less, TABLE).len(), 1);
        assert_eq!(check(&workspace(&[]), "no table").len(), 4);
    }

    #[test]
    fn metadata_is_understood() {
        let metadata = serde_json::json!({"packages": [{
            "name": "app",
            "dependencies": [
                {"name": "io", "path": "/r/crates/io", "kind": null},
                {"name": "sim", "path": "/r/crates/sim", "kind": "dev"},
                {"name": "libc", "kind": null},
            ],
            "targets": [{"src_path": "/r/crates/app/tests/cli.rs"}],
        }]});
        let workspace = Workspace::from_metadata(&metadata, Path::new("/r"));
        let app = &workspace.packages["app"];
        assert_eq!(Vec::from_iter(&app.dependencies), ["io"]);
        assert_eq!(Vec::from_iter(&app.dev_dependencies), ["sim"]);
        assert_eq!(Vec::from_iter(&app.targets), ["crates/app/tests/cli.rs"]);
    }
}
