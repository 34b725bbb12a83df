//! `top`: the state of pools as it changes, in a terminal.
//!
//! ```text
//! control socket ── view ── history (what happened each second) ── draw ── terminal
//! ```

mod draw;
mod history;
mod interval;

use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::history::History;
use crate::control::{Answer, Connection, ControlArgs, Request, pause};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;

/// What is looked at: pool and drive by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub pool: usize,
    pub paused: bool,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Quit,
    Pool(isize),
    Pause,
}

fn wish(key: KeyEvent) -> Option<Wish> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if key.kind != KeyEventKind::Press => None,
        KeyCode::Char('c') if control => Some(Wish::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
        KeyCode::Char('p') | KeyCode::Char(' ') => Some(Wish::Pause),
        KeyCode::Tab | KeyCode::Right | KeyCode::Down => Some(Wish::Pool(1)),
        KeyCode::BackTab | KeyCode::Left | KeyCode::Up => Some(Wish::Pool(-1)),
        _ => None,
    }
}

fn look(server: &Connection, history: &mut History) -> Outcome<()> {
    let after = history.seen().clone();
    let pools = server.ask(&Request::Status { pool: None })?;
    let events =
        server.ask(&Request::Events { pool: None, after, wait_millis: 0, spikes: false })?;
    let (Answer::Pools(pools), Answer::Events(events)) = (pools, events) else {
        return Err(Failure::new("server", "answered something else than it was asked"));
    };
    history.take(pools, events);
    Ok(())
}

/// Until `q`.
pub fn run(control: &ControlArgs, period: Duration) -> Outcome<Exit> {
    let server = control.connect()?;
    let mut history = History::default();
    look(&server, &mut history)?;
    let mut terminal = ratatui::try_init().map_err(|error| Failure::new("the terminal", error))?;
    let ended = watch(&mut terminal, &server, &mut history, period);
    ratatui::restore();
    ended.map(|()| Exit::Ok)
}

fn watch(
    terminal: &mut DefaultTerminal,
    server: &Connection,
    history: &mut History,
    period: Duration,
) -> Outcome<()> {
    let terminal_failed = |error| Failure::new("the terminal", error);
    let mut cursor = Cursor::default();
    let mut next = now() + period;
    loop {
        terminal
            .draw(|frame| draw::screen(frame.area(), frame.buffer_mut(), history, cursor))
            .map_err(terminal_failed)?;
        let patience = next.saturating_duration_since(now());
        if event::poll(patience).map_err(terminal_failed)? {
            let Event::Key(key) = event::read().map_err(terminal_failed)? else { continue };
            let pools = history.pools().len().max(1) as isize;
            match wish(key) {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Pause) => cursor.paused = !cursor.paused,
                Some(Wish::Pool(by)) => {
                    cursor.pool = (cursor.pool as isize + by).rem_euclid(pools) as usize;
                }
                None => {}
            }
            continue;
        }
        next = now() + period;
        if !cursor.paused {
            look(server, history)?;
        }
    }
}

/// One screen as text, after two looks: for scripts, and terminals that can't be drawn on.
pub fn once(control: &ControlArgs, period: Duration) -> Outcome<String> {
    let server = control.connect()?;
    let mut history = History::default();
    look(&server, &mut history)?;
    pause(period);
    look(&server, &mut history)?;
    let pools = 0..history.pools().len();
    Ok(pools.map(|pool| draw::text(&history, Cursor { pool, paused: false })).collect())
}

#[expect(clippy::disallowed_methods, reason = "a terminal is watched in real time")]
fn now() -> Instant {
    Instant::now()
}
