//! The log on standard error: its filter, its format and its colours.

use std::ffi::OsStr;
use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The accepted filters, for errors.
pub(super) const ACCEPTED: &str =
    "write a level (off, error, warn, info, debug, trace) or module=level, such as info,agent_kubernetes=debug";

/// Starts logging to standard error, once per process. An existing subscriber is kept.
pub(super) fn start(filter: &str, json: bool) {
    let color = uses_color(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    let subscriber = subscriber(filter, json, color, std::io::stderr);
    drop(tracing::subscriber::set_global_default(subscriber));
}

fn subscriber<W>(filter: &str, json: bool, color: bool, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(writer);
    if json { Box::new(builder.json().finish()) } else { Box::new(builder.with_ansi(color).finish()) }
}

/// Whether lines have colours: on a terminal, unless the variable `NO_COLOR` is set and not empty
/// (no-color.org).
fn uses_color(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What a log line with a field looks like.
    fn logged(json: bool, color: bool) -> String {
        #[derive(Clone, Default)]
        struct Buffer(Arc<Mutex<Vec<u8>>>);

        impl std::io::Write for Buffer {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        let buffer = Buffer::default();
        let writer = buffer.clone();
        tracing::subscriber::with_default(subscriber("info", json, color, move || writer.clone()), || {
            tracing::info!(node = "a", "node drained");
        });
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_have_colours_only_on_a_terminal_and_without_no_color() {
        let no_color = |value: &'static str| Some(OsStr::new(value));
        assert!(uses_color(true, None) && uses_color(true, no_color("")));
        assert!(!uses_color(true, no_color("1")) && !uses_color(false, None) && !uses_color(false, no_color("")));
        for (json, color, escapes) in [(false, false, false), (false, true, true), (true, true, false)] {
            let line = logged(json, color);
            assert!(line.contains("node drained"), "{line}");
            assert_eq!(line.contains('\u{1b}'), escapes, "json {json}, colour {color}: {line:?}");
        }
    }
}
