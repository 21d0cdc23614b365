//! Traces of one cluster's decisions: passes to [`Tracker`] what the cluster's task does, and exports
//! the spans that have ended. Without a collector nothing is kept.

use controller::executor::{CommandId, Outcome};
use controller::{ClusterCall, Event, Instruction, InstructionId};
use model::{ClusterName, Text, Timestamp};
use replica::{Call, ClusterInput};
use store::lease::Scope;
use trace::{InstructionContext, Tracker};
use tracing::{Span, error_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use telemetry::Exporter;

pub(super) struct Traces(Option<(Tracker, &'static Exporter)>);

impl Traces {
    pub(super) fn new(cluster: &ClusterName, region: &Scope) -> Self {
        let region = match region {
            Scope::Region { region, .. } => Text::from(region.as_str()),
            Scope::Cluster(_) => Text::default(),
        };
        Self(telemetry::exporter().map(|exporter| (Tracker::new(cluster.clone(), region), exporter)))
    }

    /// A call begins; returns the span of its log lines.
    pub(super) fn begin_call(&mut self, call: &Call, now: Timestamp) -> Span {
        let Call::RunCommand { id, call, .. } = call else { return Span::none() };
        self.begin_command(*id, call, now).unwrap_or_else(Span::none)
    }

    fn begin_command(&mut self, id: CommandId, call: &ClusterCall, now: Timestamp) -> Option<Span> {
        let (tracker, exporter) = self.0.as_mut()?;
        let context = tracker.begin_call(id, call, now)?;
        // Of the highest level, so that no filter of log lines leaves it out.
        let span = error_span!("execute", trace_id = %context.trace(), span_id = %context.span());
        // Fails without a layer that exports spans: then there are log lines only.
        let _untraced = span.set_parent(exporter.parent(context));
        self.export();
        Some(span)
    }

    pub(super) fn end_command(&mut self, id: CommandId, outcome: &Outcome, now: Timestamp) {
        if let Some((tracker, _)) = &mut self.0 {
            tracker.end_call(id, outcome, now);
            self.export();
        }
    }

    /// An instruction is sent; returns what it carries.
    pub(super) fn instruct(
        &mut self,
        id: InstructionId,
        instruction: &Instruction,
        now: Timestamp,
    ) -> Option<InstructionContext> {
        let (tracker, _) = self.0.as_mut()?;
        tracker.instruct(id, instruction, now)
    }

    /// The cluster is about to handle `input`.
    pub(super) fn observe(&mut self, input: &ClusterInput, now: Timestamp) {
        let Some((tracker, _)) = &mut self.0 else { return };
        match input {
            ClusterInput::Event(event) => tracker.observe(event, now),
            ClusterInput::Time => tracker.observe(&Event::Tick, now),
            ClusterInput::CommandEnded { .. } => return,
        }
        self.export();
    }

    /// The task of the cluster ends.
    pub(super) fn close(&mut self) {
        if let Some((tracker, _)) = &mut self.0 {
            tracker.close();
            self.export();
        }
    }

    fn export(&mut self) {
        if let Some((tracker, exporter)) = &mut self.0 {
            exporter.export(tracker.take_finished());
        }
    }
}
