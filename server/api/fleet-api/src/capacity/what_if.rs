//! A plan of a live cluster that changes nothing: with other pods, another policy, or another catalogue.

use std::sync::Arc;

use controller::planning_facts::PlanningFacts;
use decision_log::what_if::WhatIf;
use fleetwright_proto::v1;
use manifests::{InputError, Source};
use model::input::PlanningInput;
use model::plan::{PlanReport, Reason};
use model::{NotReady, Stop, Timestamp};
use planner::{CompileCache, NoPlan};
use prost_types::value::Kind;
use prost_types::{Struct, Value as ProtoValue};
use quote::PodSet;

use super::plan_message::{self, NoMessage};
use api_messages::errors::FieldViolation;
use api_messages::json_struct::to_json;
use render::Rendering;

pub(crate) struct WhatIfPlan {
    pub(crate) facts: PlanningFacts,
    /// Pods to plan together with those that wait.
    pub(crate) sets: Arc<[PodSet]>,
    pub(crate) without_pending_pods: bool,
    pub changes: WhatIf,
}

#[derive(Debug)]
pub(crate) struct ShownPlan {
    pub plan: v1::Plan,
    /// When the state that it was made from was taken.
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WhatIfError {
    /// Fields of the request are wrong.
    Invalid(Vec<FieldViolation>),
    /// The plan is longer than a message may be.
    TooLong,
    /// The client does not wait any more.
    Stopped,
    Refused(String),
}

pub(crate) type WhatIfResult = Result<ShownPlan, WhatIfError>;

/// Objects of a policy at most: each NodePool is tried for each kind of pod, and each EC2NodeClass has a catalogue.
const MAX_POLICY_OBJECTS: usize = 100;

/// Steps of scheduling at most: twice what the largest inputs of the benchmark need, two seconds.
const MAX_STEPS: u64 = 40_000_000;

/// Checks the number of objects of a policy, before any is read.
///
/// # Errors
/// What is wrong with the field `policy`.
pub(crate) fn check_policy(policy: Option<&Struct>) -> Result<(), FieldViolation> {
    let count = policy.map_or(0, objects);
    if count <= MAX_POLICY_OBJECTS {
        return Ok(());
    }
    Err(FieldViolation::new("policy", format!("{count} objects, allowed: at most {MAX_POLICY_OBJECTS}")))
}

/// The number of objects, those of lists within lists included.
fn objects(of: &Struct) -> usize {
    let Some(Kind::ListValue(items)) = of.fields.get("items").and_then(|items| items.kind.as_ref()) else { return 1 };
    let count = |item: &ProtoValue| match &item.kind {
        Some(Kind::StructValue(item)) => objects(item),
        _ => 1,
    };
    items.values.iter().map(count).sum::<usize>().max(1)
}

/// The changes that a request states.
pub fn changes(policy: Option<&Struct>, catalogue: Option<&Struct>) -> WhatIf {
    let source = |name: &str, message: &Struct| Source {
        name: name.to_owned(),
        bytes: to_json(message).to_string().into_bytes(),
    };
    WhatIf {
        manifests: policy.map(|message| source("policy", message)).into_iter().collect(),
        settings: None,
        catalogue: catalogue.map(|message| source("catalogue", message)),
    }
}

impl WhatIfPlan {
    /// The plan, unless `stop` is due before it is there. `cache` has what was compiled for earlier ones.
    pub fn run(self, cache: &mut CompileCache, stop: &Stop) -> WhatIfResult {
        let (at, price_date) = (self.facts.at(), self.facts.price_date().cloned());
        let input = self.input()?;
        // Reading the policy takes a while too, and the scheduler compiles before it asks.
        if stop.is_due() {
            return Err(WhatIfError::Stopped);
        }
        let mut decision = planner::plan_until(&input, cache, stop).map_err(|why| match why {
            NoPlan::Stopped => WhatIfError::Stopped,
            NoPlan::Invalid(found) => {
                let first = found.first().map(ToString::to_string).unwrap_or_default();
                WhatIfError::Refused(format!("every plan fails the plan verifier ({first}); please report it"))
            }
        })?;
        shorten(&input, &mut decision.report);
        let mut notes = decision.report.notes.clone();
        notes.sort();
        notes.dedup();
        let rendering = Rendering {
            input: &input,
            plan: &decision.plan,
            report: &decision.report,
            price_date: price_date.as_deref(),
            notes: &notes,
            comparison: None,
            repacking: None,
        };
        let plan = plan_message::plan(&rendering, stop).map_err(|why| match why {
            NoMessage::TooLong => WhatIfError::TooLong,
            NoMessage::Stopped => WhatIfError::Stopped,
        })?;
        Ok(ShownPlan { plan, at })
    }

    fn input(self) -> Result<PlanningInput, WhatIfError> {
        let mut input = self.facts.build();
        let hold = self.facts.launch_block().cloned();
        // The cluster's task need not copy its state any more.
        drop(self.facts);
        if self.without_pending_pods {
            input.pods.clear();
        }
        quote::pod_set::add_to(&mut input, &self.sets);
        if let Some(twice) = input.pods.windows(2).find(|pods| pods[0].key() == pods[1].key()) {
            let problem = format!("a pod that waits is named {}; choose another name for the pod set", twice[0].key());
            return Err(WhatIfError::Invalid(vec![FieldViolation::new("pod_sets", problem)]));
        }
        self.changes
            .apply(&mut input)
            .map_err(|errors| WhatIfError::Invalid(errors.iter().map(violation).collect()))?;
        input.policy.step_limit = match input.policy.step_limit {
            0 => MAX_STEPS,
            limit => limit.min(MAX_STEPS),
        };
        if let Some(why) = hold {
            input.pools.iter_mut().for_each(|pool| pool.not_ready = Some(NotReady::NodePool(why.clone())));
        }
        Ok(input)
    }
}

/// An error of the policy or the catalogue, which is the field of the request that it is named after.
fn violation(error: &InputError) -> FieldViolation {
    let object = error.object.iter().map(|object| format!("{object}: "));
    let path = if error.path.is_empty() { error.source.clone() } else { format!("{}.{}", error.source, error.path) };
    FieldViolation::new(path, object.chain([error.message.clone()]).collect::<String>())
}

/// Leaves each pod that has the reasons of an earlier one the first of them, with a hint at the earlier pod: reasons are then as
/// many as kinds of pods and NodePools, and not as pods.
fn shorten(input: &PlanningInput, report: &mut PlanReport) {
    type Reasons = Arc<[Reason]>;
    let mut shortened: Vec<(Reasons, Reasons)> = Vec::new();
    for entry in &mut report.unschedulable {
        if let Some((_, short)) = shortened.iter().find(|(whole, _)| Arc::ptr_eq(whole, &entry.reasons)) {
            entry.reasons = Arc::clone(short);
            continue;
        }
        let (pod, more) = (input.pods[entry.pod as usize].key(), entry.reasons.len().saturating_sub(1));
        let short = entry.reasons.first().map(|first| match more {
            0 => first.clone(),
            _ => {
                Reason { message: format!("{} ({more} more reasons: those of {pod})", first.message), ..first.clone() }
            }
        });
        shortened.push((Arc::clone(&entry.reasons), short.into_iter().collect()));
    }
}

#[cfg(test)]
mod tests {
    use model::Pod;
    use serde_json::{Value, json};

    use super::*;
    use api_messages::json_struct::from_json;

    fn policy(value: Value) -> Struct {
        let Value::Object(fields) = value else { panic!("an object") };
        from_json(fields)
    }

    #[test]
    fn a_policy_has_a_hundred_objects_at_most_however_they_are_nested() {
        let list = |count: usize, item: &Value| json!({"kind": "List", "items": vec![item.clone(); count]});
        let pool = json!({"kind": "NodePool"});
        assert_eq!(check_policy(None), Ok(()));
        assert_eq!(check_policy(Some(&policy(pool.clone()))), Ok(()));
        assert_eq!(check_policy(Some(&policy(list(100, &pool)))), Ok(()));
        for too_many in [list(101, &pool), list(11, &list(10, &pool)), list(101, &json!({"kind": "List", "items": []}))]
        {
            let refused = check_policy(Some(&policy(too_many))).expect_err("it is refused");
            assert!(refused.problem.ends_with("objects, allowed: at most 100"), "{}", refused.problem);
            assert_eq!(refused.field, "policy");
        }
    }

    /// A report in which `alike` pods share the reasons of `pools` NodePools.
    fn report(alike: u32, pools: usize) -> (PlanningInput, PlanReport) {
        let pod = |number: u32| Pod {
            namespace: "shop".into(),
            name: format!("web-{number}").into(),
            workload: "Deployment/web".into(),
            ..Pod::default()
        };
        let input = PlanningInput { pods: (0..alike).map(pod).collect(), ..PlanningInput::default() };
        let reason = |pool: usize| Reason {
            pool: Some(format!("pool-{pool}").into()),
            code: model::plan::ReasonCode::Resources,
            message: format!("too small by {pool}"),
        };
        let reasons: Arc<[Reason]> = (0..pools).map(reason).collect();
        let entry = |pod| model::plan::Unschedulable { pod, reasons: Arc::clone(&reasons), fits_if: [].into() };
        (input, PlanReport { unschedulable: (0..alike).map(entry).collect(), ..PlanReport::default() })
    }

    #[test]
    fn reasons_are_as_many_as_kinds_of_pods_and_pools() {
        let (input, mut report) = report(3, 4);
        shorten(&input, &mut report);
        let counts: Vec<usize> = report.unschedulable.iter().map(|entry| entry.reasons.len()).collect();
        assert_eq!(counts, [4, 1, 1]);
        let short = &report.unschedulable[2].reasons[0];
        assert_eq!(short.message, "too small by 0 (3 more reasons: those of shop/web-0)");
        assert_eq!(short.pool.as_ref().map(|pool| pool.to_string()), Some("pool-0".to_owned()));
    }
}
