//! Traces: one for each decision that buys, from the first pod of its window to the machines' ids.
//!
//! ```text
//! decision ─┬─ gather    the window, from its first pod until it is planned
//!           ├─ record    the store
//!           ├─ create    until the agent has made the NodeClaim
//!           └─ launch    each try; `instance.id` when there is a machine
//! ```
//!
//! Calls are spans of `tracing`, so that lines logged on the way say what they belong to. The others are intervals that
//! nobody sits and waits for; they go to the tracer directly. Without a collector nothing is kept.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use engine::control::{ClusterId, Decision, Instruction};
use engine::model::{Text, Timestamp};
use executor::{Command, CommandId, Outcome};
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue, global};
use tracing::{Span, field, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::replica::{Call, Input};

/// A trace whose machines have not come in this time is let go, in milliseconds: a NodeClaim without a machine is given up
/// after as long (Karpenter: launch timeout, with room to spare).
const FORGET_MS: i64 = 15 * 60_000;

/// NodeClaim of a cluster.
type Claim = (ClusterId, Text);

/// A NodeClaim whose machine is being bought.
struct Followed {
    /// The decision's span; it ends when the last NodeClaim of the decision lets go of it.
    decision: Context,
    /// The agent is making the NodeClaim: ends when it is let go of.
    creating: Option<Context>,
    since: Timestamp,
}

/// Traces that have not ended.
#[derive(Default)]
pub(super) struct Traces {
    followed: BTreeMap<Claim, Followed>,
    launches: BTreeMap<CommandId, Claim>,
}

impl Traces {
    /// The span that a call is made in.
    pub(super) fn of(&mut self, call: &Call, now: Timestamp) -> Span {
        let Call::Run { id, command, .. } = call else { return Span::none() };
        match command {
            Command::Record(decision) if !decision.machines.is_empty() => self.decided(decision, now),
            Command::Launch(order) => self.launch(*id, (order.cluster.clone(), order.claim.clone()), order.attempt),
            Command::Relaunch(decided) => {
                let order = &decided.machine.launch;
                self.launch(*id, (order.cluster.clone(), order.claim.clone()), order.attempt)
            }
            Command::Close { cluster, claim } => {
                self.followed.remove(&(cluster.clone(), claim.clone()));
                Span::none()
            }
            _ => Span::none(),
        }
    }

    /// The agent is told something.
    pub(super) fn instructed(&mut self, cluster: &ClusterId, instruction: &Instruction) {
        let Instruction::CreateClaim(order) = instruction else { return };
        let Some(followed) = self.followed.get_mut(&(cluster.clone(), order.name.clone())) else { return };
        followed.creating.get_or_insert_with(|| {
            let builder = tracer().span_builder("create").with_kind(SpanKind::Client);
            let attributes = [KeyValue::new("k8s.nodeclaim.name", order.name.to_string())];
            let span = builder.with_attributes(attributes).start_with_context(&tracer(), &followed.decision);
            followed.decision.with_span(span)
        });
    }

    /// A call came to an end: a launch that was answered for good is followed no further.
    pub(super) fn ended(&mut self, input: &Input) {
        let Input::Ran { id, outcome } = input else { return };
        if !matches!(outcome, Outcome::TryAgain { .. })
            && let Some(claim) = self.launches.remove(id)
        {
            self.followed.remove(&claim);
        }
    }

    /// One decision has one record, however often it is tried: the trace begins with the first try.
    fn decided(&mut self, decision: &Decision, now: Timestamp) -> Span {
        self.followed.retain(|_, followed| now.millis_since(followed.since) < FORGET_MS);
        let claims = decision.machines.iter().map(|machine| (decision.cluster.clone(), machine.claim.name.clone()));
        let known = claims.clone().find_map(|claim| Some(self.followed.get(&claim)?.decision.clone()));
        let trace = known.unwrap_or_else(|| begin(decision));
        let span = info_span!("record", otel.kind = "client", cluster = %decision.cluster, decision = decision.id.0);
        if trace.span().span_context().is_valid() {
            // Without a layer for traces the span is one of the log's alone.
            let _nobody_traces = span.set_parent(trace.clone());
            let followed = || Followed { decision: trace.clone(), creating: None, since: now };
            self.followed.extend(claims.map(|claim| (claim, followed())));
        }
        span
    }

    fn launch(&mut self, id: CommandId, claim: Claim, attempt: u32) -> Span {
        let span = info_span!(
            "launch",
            otel.kind = "client",
            otel.status_code = field::Empty,
            otel.status_description = field::Empty,
            cluster = %claim.0,
            k8s.nodeclaim.name = %claim.1,
            attempt,
            instance.id = field::Empty,
            instance.r#type = field::Empty,
            zone = field::Empty,
        );
        if let Some(followed) = self.followed.get_mut(&claim) {
            followed.creating = None;
            let _nobody_traces = span.set_parent(followed.decision.clone());
            self.launches.insert(id, claim);
        }
        span
    }
}

/// Writes into the span of a call what came of it.
pub(super) fn note(input: &Input) {
    let Input::Ran { outcome, .. } = input else { return };
    let span = Span::current();
    match outcome {
        Outcome::Launched { provider_id, instance_type, zone, .. } => {
            span.record("instance.id", field::display(provider_id));
            span.record("instance.type", field::display(instance_type));
            span.record("zone", field::display(zone));
        }
        Outcome::LaunchFailed(failure) => failed(&span, &format!("{failure:?}")),
        Outcome::Refused(why) | Outcome::Unmet(why) | Outcome::TryAgain { why, .. } => failed(&span, why),
        Outcome::Done | Outcome::Begun | Outcome::Found(_) => {}
    }
}

fn failed(span: &Span, why: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", why);
}

/// A trace with its window.
fn begin(decision: &Decision) -> Context {
    let opened = decision.basis.as_ref().and_then(|basis| basis.opened).unwrap_or(decision.at);
    let attributes = [
        KeyValue::new("cluster", decision.cluster.to_string()),
        KeyValue::new("decision", i64::try_from(decision.id.0).unwrap_or(i64::MAX)),
        KeyValue::new("machines", i64::try_from(decision.machines.len()).unwrap_or(i64::MAX)),
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
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0.max(0).unsigned_abs())
}
