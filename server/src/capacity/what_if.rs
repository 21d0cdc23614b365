//! A plan of a live cluster that changes nothing: with other pods, another policy, or another catalogue.

use std::sync::Arc;

use controller::planning_facts::PlanningFacts;
use decision_log::what_if::WhatIf;
use fleetwright_rpc::MAX_MESSAGE_BYTES;
use manifests::{InputError, Source};
use model::input::PlanningInput;
use model::{NotReady, Timestamp};
use planner::CompileCache;
use prost_types::Struct;
use quote::PodSet;
use serde_json::Value;

use super::errors::FieldViolation;
use super::json_struct::{from_json, to_json};
use crate::render::{self, Rendering};

/// What to plan.
pub(crate) struct WhatIfPlan {
    pub(crate) facts: PlanningFacts,
    /// Pods to plan together with those that wait.
    pub(crate) sets: Arc<[PodSet]>,
    pub(crate) without_pending_pods: bool,
    pub(crate) changes: WhatIf,
}

/// A plan.
#[derive(Debug)]
pub(crate) struct ShownPlan {
    /// What `fleetwright plan -o json` prints.
    pub(crate) document: Struct,
    /// When the state that it was made from was taken.
    pub(crate) at: Timestamp,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WhatIfError {
    /// Fields of the request are wrong.
    Invalid(Vec<FieldViolation>),
    /// The plan is longer than a message may be.
    TooLong(usize),
    /// The verifier refuses every plan.
    Refused(String),
}

pub(crate) type WhatIfResult = Result<ShownPlan, WhatIfError>;

/// The changes that a request states.
pub(crate) fn changes(policy: Option<&Struct>, catalogue: Option<&Struct>) -> WhatIf {
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
    /// The plan. `cache` has what was compiled for earlier ones.
    pub(crate) fn run(self, cache: &mut CompileCache) -> WhatIfResult {
        let (at, price_date) = (self.facts.at(), self.facts.price_date().cloned());
        let input = self.input()?;
        let decision = planner::plan_with(&input, cache).map_err(|found| {
            let first = found.first().map(ToString::to_string).unwrap_or_default();
            WhatIfError::Refused(format!("every plan fails the plan verifier ({first}); please report it"))
        })?;
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
        let mut text = Vec::new();
        render::document::write_json(&rendering, &mut text).map_err(|error| WhatIfError::Refused(error.to_string()))?;
        document(&text).map(|document| ShownPlan { document, at })
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

fn document(text: &[u8]) -> Result<Struct, WhatIfError> {
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(WhatIfError::TooLong(text.len()));
    }
    match serde_json::from_slice(text) {
        Ok(Value::Object(fields)) => Ok(from_json(fields)),
        other => Err(WhatIfError::Refused(format!("the plan is no JSON object: {other:?}"))),
    }
}
