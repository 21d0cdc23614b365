//! The fleet in the terminal until the operator quits.

use std::io;
use std::time::Duration;

use ::top::{Action, Top};
use store::clock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval as ticks};

use super::feed::{Event, Feeds};
use super::keyboard::{self, Input};
use super::terminal::Screen;
use command::exit::{Failure, Status};

/// Longest time between two pictures: they have ages in seconds.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Shows the fleet. Keys come first; changes are drawn once an interval.
///
/// # Errors
/// The server refuses what is asked for; the terminal fails.
pub(super) async fn run(mut top: Top, mut feeds: Feeds, interval: Duration) -> Result<Status, Failure> {
    let mut signals = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()]
        .map(signal)
        .into_iter()
        .collect::<io::Result<Vec<Signal>>>()
        .map_err(|error| Failure::internal(format!("signals cannot be handled: {error}")))?;
    let mut screen = Screen::open().map_err(terminal_failure)?;
    let mut inputs = keyboard::read();
    let mut drawing = ticks(interval.min(LONGEST_INTERVAL));
    drawing.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let is_paused = top.is_paused();
        tokio::select! {
            biased;
            () = any(&mut signals) => return Ok(Status::Done),
            input = inputs.recv() => {
                if handle(&mut top, input)? == Action::Quit {
                    return Ok(Status::Done);
                }
                draw(&mut screen, &mut top)?;
            }
            _ = drawing.tick() => draw(&mut screen, &mut top)?,
            event = feeds.next(), if !is_paused => match event {
                Event::Failed(failure) => return Err(failure),
                Event::Change(change) => top.apply(change, now_ms()),
            },
        }
    }
}

/// The next of these signals.
async fn any(signals: &mut [Signal]) {
    let received = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
    futures::future::select_all(received).await;
}

fn handle(top: &mut Top, input: Option<Input>) -> Result<Action, Failure> {
    match input {
        Some(Input::Key(key)) => Ok(top.handle(key, now_ms())),
        Some(Input::Resized) => Ok(Action::Draw),
        Some(Input::Failed(error)) => Err(terminal_failure(error)),
        None => Err(Failure::internal("the terminal is not read any more")),
    }
}

fn draw(screen: &mut Screen, top: &mut Top) -> Result<(), Failure> {
    screen.draw(|frame| top.draw(frame, now_ms())).map_err(terminal_failure)
}

fn now_ms() -> i64 {
    clock::now().as_millis()
}

fn terminal_failure(error: io::Error) -> Failure {
    Failure::internal(format!("the terminal failed: {error}; --once prints one screen without it"))
}
