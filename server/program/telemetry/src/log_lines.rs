//! Log lines. A line within a call of a traced decision ends with the ids of its trace and span.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// A line of text: time, level, module and the fields of the event. Of spans, which would repeat the
/// fields, only those of traces are written. A filter that disables them for the log is no way: it
/// also suppresses the next event of the thread.
pub(super) struct EventLine;

impl<S, F> FormatEvent<S, F> for EventLine
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    F: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, F>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        SystemTime.format_time(&mut line)?;
        let metadata = event.metadata();
        write!(line, " {:>5} {}: ", metadata.level(), metadata.target())?;
        ctx.format_fields(line.by_ref(), event)?;
        if let Some(ids) = ids_of_span(ctx) {
            write!(line, " {ids}")?;
        }
        writeln!(line)
    }
}

/// A line of JSON, as `tracing` writes it.
pub(super) struct JsonLine(Format<Json>);

impl JsonLine {
    pub(super) fn new() -> Self {
        Self(Format::default().json().with_current_span(false).with_span_list(false))
    }
}

impl<S, F> FormatEvent<S, F> for JsonLine
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    F: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, F>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(ids) = ids_of_span(ctx) else { return self.0.format_event(ctx, line, event) };
        let mut object = String::new();
        self.0.format_event(ctx, Writer::new(&mut object), event)?;
        line.write_str(&join_objects(&object, &ids))
    }
}

/// The line `object` with the members of the JSON object `more` at its end.
fn join_objects(object: &str, more: &str) -> String {
    let (open, members) = (object.trim_end().strip_suffix('}'), more.strip_prefix('{'));
    match (open, members) {
        (Some(open), Some(members)) => format!("{open},{members}\n"),
        _ => object.to_owned(),
    }
}

/// The fields `trace_id` and `span_id` of the current span, as its formatter has written them.
fn ids_of_span<S, F>(ctx: &FmtContext<'_, S, F>) -> Option<String>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    F: for<'w> FormatFields<'w> + 'static,
{
    let span = ctx.lookup_current()?;
    span.fields().field("trace_id")?;
    let extensions = span.extensions();
    Some(extensions.get::<FormattedFields<F>>()?.fields.clone())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::{error_span, info};
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged by an event in a traced span, and by one outside of it.
    fn lines(layer: impl FnOnce(Lines) -> Box<dyn Layer<tracing_subscriber::Registry> + Send + Sync>) -> Vec<String> {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(layer(lines.clone()));
        tracing::subscriber::with_default(subscriber, || {
            error_span!("record", trace_id = %"ab", span_id = %"cd").in_scope(|| info!(cluster = "blue", "recorded"));
            info!("idle");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_of_text_in_a_traced_call_ends_with_the_ids_of_trace_and_span() {
        let layer = |to: Lines| {
            let lines = tracing_subscriber::fmt::layer().with_ansi(false);
            lines.with_writer(move || to.clone()).event_format(EventLine).boxed()
        };
        let lines = lines(layer);
        assert!(lines[0].ends_with(r#"recorded cluster="blue" trace_id=ab span_id=cd"#), "{lines:?}");
        assert!(lines[1].ends_with("idle"), "{lines:?}");
    }

    #[test]
    fn a_line_of_json_in_a_traced_call_has_the_ids_of_trace_and_span() {
        let layer = |to: Lines| {
            let lines = tracing_subscriber::fmt::layer().with_writer(move || to.clone()).json();
            lines.event_format(JsonLine::new()).boxed()
        };
        let lines: Vec<serde_json::Value> =
            lines(layer).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["trace_id"], &lines[0]["span_id"]), (&"ab".into(), &"cd".into()));
        assert_eq!(lines[0]["fields"]["cluster"], "blue");
        assert_eq!((lines[1].get("trace_id"), &lines[1]["fields"]["message"]), (None, &"idle".into()));
    }
}
