//! `fleetwright top`: the fleet live in the terminal. The crate `top` decides what is shown; this is the connection and the
//! terminal.

mod feed;
mod keyboard;
mod live;
mod messages;
mod terminal;

use std::io::{self, IsTerminal};
use std::time::Duration;

use ::top::{Kind, Top};
use clap::{Args, ValueEnum};
use store::clock;

use super::remote::{FleetClient, ServerFlags};
use command::exit::{Failure, Status};
use command::output;
use feed::{Event, Feeds};

/// Width and height of a picture without a terminal.
const PLAIN_SIZE: (u16, u16) = (80, 24);

/// Show the fleet live in the terminal: spend, waste, pending pods; clusters, their nodes and pods that wait
///
/// Press ? for the keys. What pods request of the allocatable is shown, and no use. All nodes of the fleet, or of --cluster,
/// are listed once and then watched.
#[derive(Debug, Args)]
pub struct TopFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Only this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// What is shown first [default: clusters; nodes with --cluster]
    #[arg(long, value_enum)]
    view: Option<FirstView>,
    /// Print one screen as text and end, as without a terminal
    #[arg(long)]
    once: bool,
    /// Seconds between two pictures of what changes; keys take effect at once
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
}

/// What is shown first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FirstView {
    Clusters,
    Nodes,
    Pods,
}

/// A number of seconds from 0.1, the server's least interval, to an hour.
fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write a number of seconds from 0.1 to 3600".to_owned()),
    }
}

impl TopFlags {
    fn kind(&self) -> Kind {
        match (self.view, &self.cluster) {
            (Some(FirstView::Nodes), _) | (None, Some(_)) => Kind::Nodes,
            (Some(FirstView::Pods), _) => Kind::Pods,
            (Some(FirstView::Clusters) | None, _) => Kind::Clusters,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The server is unreachable when the command begins, or refuses what is asked for; the terminal fails.
pub fn run(flags: &TopFlags) -> Result<Status, Failure> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let top = Top::new(flags.kind(), flags.cluster.as_deref(), is_terminal && has_colours());
    let interval = Duration::from_secs_f64(flags.interval);
    flags.server.ask(async |client| {
        let feeds = Feeds::start(&client, flags.cluster.as_deref(), interval);
        if flags.once || !is_terminal { print_once(top, feeds).await } else { live::run(top, feeds, interval).await }
    })
}

/// Whether colours are wanted (<https://no-color.org>), and the terminal has them.
fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    is_set("NO_COLOR").is_none() && is_set("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Prints one screen once everything is listed.
async fn print_once(mut top: Top, mut feeds: Feeds) -> Result<Status, Failure> {
    let mut is_complete = true;
    while !top.is_live() {
        match feeds.next().await {
            Event::Failed(failure) => return Err(failure),
            Event::Change(::top::Change::Feed(_, ::top::Feed::Broken(reason))) => {
                return Err(Failure::internal(reason));
            }
            Event::Change(change) => {
                if let ::top::Change::Unreachable(_, clusters) = &change {
                    is_complete &= clusters.is_empty();
                }
                top.apply(change, clock::now().as_millis());
            }
        }
    }
    let (width, height) = if io::stdout().is_terminal() { terminal::size() } else { None }.unwrap_or(PLAIN_SIZE);
    output::print_text(&top.plain_text(width, height, clock::now().as_millis()))?;
    Ok(if is_complete { Status::Done } else { Status::Leftover })
}

#[cfg(test)]
mod tests;
