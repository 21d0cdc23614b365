//! Traces: one for each launching decision, from the first pod of its batch window to the instance
//! ids.
//!
//! ```text
//! decision ─┬─ gather    the window, from its first pod until it is planned
//!           ├─ record    the store
//!           ├─ create    until the agent has made the NodeClaim
//!           └─ launch    each try; `instance.id` when there is a machine
//! ```
//!
//! Calls are `tracing` spans, so that log lines carry their context. The other spans are intervals
//! without a running task and go to the tracer directly. Without a collector nothing is kept.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use controller::executor::{CommandId, Outcome};
use controller::{Decision, Effect, Event, Instruction};
use model::{ClaimName, ClusterName, LaunchOrder, Millis, Timestamp};
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue, global};
use tracing::{Span, field, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use replica::{Call, Input};

/// A trace without an instance is dropped after this: longer than Karpenter's launch timeout, after
/// which the NodeClaim is deleted.
const GIVE_UP_AFTER: Millis = Millis::from_mins(15);

/// Cluster and name of a NodeClaim.
type Claim = (ClusterName, ClaimName);

/// A NodeClaim whose launch is traced.
struct TracedClaim {
    /// The decision's span; it ends when its last NodeClaim drops it.
    decision: Context,
    /// The `create` span while the agent creates the NodeClaim; ends when dropped.
    creating: Option<Context>,
    since: Timestamp,
}

/// Traces of the launches of one cluster.
#[derive(Default)]
pub struct Traces {
    claims: BTreeMap<Claim, TracedClaim>,
    launches: BTreeMap<CommandId, Claim>,
}

impl Traces {
    /// The span that a call runs in.
    pub(super) fn span_for(&mut self, call: &Call, now: Timestamp) -> Span {
        let Call::RunCommand { command, .. } = call else { return Span::none() };
        match &command.effect {
            Effect::RecordDecision(decision) if !decision.launches.is_empty() => self.begin_decision(decision, now),
            Effect::Launch(order) => self.launch(command.id, order),
            Effect::Relaunch(decided) => self.launch(command.id, &decided.machine.launch),
            Effect::CloseLaunch { cluster, claim } => {
                self.claims.remove(&(cluster.clone(), claim.clone()));
                Span::none()
            }
            _ => Span::none(),
        }
    }

    /// Begins the `create` span of a NodeClaim instruction.
    pub(super) fn begin_create(&mut self, cluster: &ClusterName, instruction: &Instruction) {
        let Instruction::CreateClaim(order) = instruction else { return };
        let Some(traced) = self.claims.get_mut(&(cluster.clone(), order.name.clone())) else { return };
        traced.creating.get_or_insert_with(|| {
            let builder = tracer().span_builder("create").with_kind(SpanKind::Client);
            let attributes = [KeyValue::new("k8s.nodeclaim.name", order.name.to_string())];
            let span = builder.with_attributes(attributes).start_with_context(&tracer(), &traced.decision);
            traced.decision.with_span(span)
        });
    }

    /// Ends the trace of a launch with a final answer.
    pub(super) fn finish_launch(&mut self, id: CommandId, outcome: &Outcome) {
        if outcome.is_ok()
            && let Some(claim) = self.launches.remove(&id)
        {
            self.claims.remove(&claim);
        }
    }

    /// Begins the trace of a decision with the first try of its record.
    fn begin_decision(&mut self, decision: &Decision, now: Timestamp) -> Span {
        self.claims.retain(|_, traced| now.duration_since(traced.since) < GIVE_UP_AFTER);
        let claims = decision.launches.iter().map(|machine| (decision.cluster.clone(), machine.claim.name.clone()));
        let known = claims.clone().find_map(|claim| Some(self.claims.get(&claim)?.decision.clone()));
        let trace = known.unwrap_or_else(|| begin_trace(decision));
        let span = info_span!("record", otel.kind = "client", cluster = %decision.cluster, decision = decision.id.0);
        if trace.span().span_context().is_valid() {
            // Without a tracing layer the span exists for the log only.
            let _untraced = span.set_parent(trace.clone());
            let traced = || TracedClaim { decision: trace.clone(), creating: None, since: now };
            self.claims.extend(claims.map(|claim| (claim, traced())));
        }
        span
    }

    fn launch(&mut self, id: CommandId, order: &LaunchOrder) -> Span {
        let claim = (order.cluster.clone(), order.claim.clone());
        let span = info_span!(
            "launch",
            otel.kind = "client",
            otel.status_code = field::Empty,
            otel.status_description = field::Empty,
            cluster = %claim.0,
            k8s.nodeclaim.name = %claim.1,
            attempt = order.attempt,
            instance.id = field::Empty,
            instance.r#type = field::Empty,
            zone = field::Empty,
        );
        if let Some(traced) = self.claims.get_mut(&claim) {
            traced.creating = None;
            let _untraced = span.set_parent(traced.decision.clone());
            self.launches.insert(id, claim);
        }
        span
    }
}

/// Records the outcome of a call in its span.
pub(super) fn record_outcome(input: &Input) {
    let Input::CommandEnded { outcome, .. } = input else { return };
    let span = Span::current();
    match outcome {
        Ok(Some(Event::Launched(launched))) => {
            span.record("instance.id", field::display(&launched.provider_id));
            span.record("instance.type", field::display(&launched.instance_type));
            span.record("zone", field::display(&launched.zone));
        }
        Ok(Some(Event::LaunchFailed { failure, .. })) => record_error(&span, &format!("{failure:?}")),
        Err(retry) => record_error(&span, &retry.why),
        Ok(_) => {}
    }
}

fn record_error(span: &Span, why: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", why);
}

/// Begins a trace with the span of its batch window.
fn begin_trace(decision: &Decision) -> Context {
    let opened = decision.basis.as_ref().and_then(|basis| basis.opened).unwrap_or(decision.at);
    let attributes = [
        KeyValue::new("cluster", decision.cluster.to_string()),
        KeyValue::new("decision", i64::try_from(decision.id.0).unwrap_or(i64::MAX)),
        KeyValue::new("machines", i64::try_from(decision.launches.len()).unwrap_or(i64::MAX)),
        KeyValue::new("usd_per_hour", decision.new_cost.to_string()),
    ];
    let builder = tracer().span_builder("decision").with_start_time(moment(opened)).with_attributes(attributes);
    let trace = Context::new().with_span(builder.start_with_context(&tracer(), &Context::new()));
    let gather = tracer().span_builder("gather").with_start_time(moment(opened));
    gather.start_with_context(&tracer(), &trace).end_with_timestamp(moment(decision.at));
    trace
}

fn tracer() -> global::BoxedTracer {
    global::tracer_provider().tracer("fleetwright")
}

fn moment(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.as_millis().max(0).unsigned_abs())
}
