//! A cloud provider whose calls are counted and timed, for metrics, and report whether the cloud answers.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use cloud::notice::Notice;
use cloud::provider::{CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, Outage, Owner};
use model::interruption::InterruptionKind;
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use model::{ClusterName, Text};
use store::clock;
use store::lease::Scope;

use fleet_api::conditions::{CloudAction, Conditions, Dependency, Failure};
use metrics::Family;
use metrics::histogram::Histogram;

pub(crate) static CALLS: LazyLock<CloudCalls> = LazyLock::new(CloudCalls::default);

/// Methods by Karpenter's names.
const METHODS: [&str; 4] = ["Create", "Delete", "Get", "List"];
/// Errors by Karpenter's names; the last one is any other.
const ERRORS: [&str; 3] = ["InsufficientCapacityError", "NodeClaimNotFoundError", ""];

/// Durations and failures of calls, in the order of [`METHODS`].
#[derive(Debug, Default)]
pub(crate) struct CloudCalls {
    durations: [Histogram; METHODS.len()],
    /// By method and error.
    failures: Mutex<BTreeMap<(usize, &'static str), u64>>,
}

impl CloudCalls {
    /// Times a call until it is answered. One that is given up is not counted.
    async fn measure<T>(
        &self,
        method: usize,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let begun = Instant::now();
        let answer = call.await;
        self.durations[method].observe(begun.elapsed());
        if let Err(error) = &answer {
            let name = match error {
                CloudError::InsufficientCapacity { .. } => ERRORS[0],
                CloudError::NotFound { .. } => ERRORS[1],
                _ => ERRORS[2],
            };
            // One addition cannot leave the map inconsistent.
            *self.failures.lock().unwrap_or_else(PoisonError::into_inner).entry((method, name)).or_default() += 1;
        }
        answer
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let durations = METHODS.iter().zip(&self.durations);
        let durations = durations.map(|(method, of)| (vec![("method", (*method).to_owned())], of.value()));
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = METHODS.iter().enumerate().flat_map(|(index, method)| ERRORS.map(|error| (index, *method, error)));
        let failures = all.map(|(index, method, error)| {
            let count = failures.get(&(index, error)).copied().unwrap_or_default();
            (vec![("method", method.to_owned()), ("error", error.to_owned())], count.into())
        });
        vec![
            Family::histograms(
                "karpenter_cloudprovider_duration_seconds",
                "Time that calls of the cloud take until they are answered, of this process.",
            )
            .labelled(&["method"])
            .all(durations),
            Family::counter(
                "karpenter_cloudprovider_errors_total",
                "Calls of the cloud that it answered with an error, of this process; an error without a name of Karpenter's has an \
                 empty one.",
            )
            .labelled(&["method", "error"])
            .all(failures),
        ]
    }
}

/// A provider whose calls are counted.
pub(crate) struct MeasuredCloud {
    cloud: Arc<dyn CloudProvider>,
    scope: Scope,
    conditions: Arc<Conditions>,
    calls: &'static CloudCalls,
}

impl MeasuredCloud {
    /// The cloud of an account and region, whose calls are counted among those of the process.
    pub(crate) fn new(cloud: Arc<dyn CloudProvider>, scope: Scope, conditions: Arc<Conditions>) -> Self {
        Self { cloud, scope, conditions, calls: &CALLS }
    }

    /// What the answer to an action says about the cloud. An answer without what was asked for is an answer.
    fn report<T>(&self, action: CloudAction, answer: Result<T, CloudError>) -> Result<T, CloudError> {
        let (now, cloud) = (clock::now(), Dependency::Cloud(self.scope.clone()));
        let right = Dependency::CloudAction(self.scope.clone(), action);
        let Some((error, outage)) = answer.as_ref().err().and_then(|error| Some((error, error.outage()?))) else {
            self.conditions.report(&cloud, Ok(()), now);
            self.conditions.report(&right, Ok(()), now);
            return answer;
        };
        match outage {
            Outage::NoAnswer => self.conditions.report(&cloud, Err(Failure::no_answer(error.to_string())), now),
            Outage::Credentials => self.conditions.report(&cloud, Err(Failure::refused(error.to_string())), now),
            Outage::Denied => {
                self.conditions.report(&cloud, Ok(()), now);
                self.conditions.report(&right, Err(Failure::refused(error.to_string())), now);
            }
        }
        answer
    }
}

#[tonic::async_trait]
impl CloudProvider for MeasuredCloud {
    fn terms(&self, request: &LaunchRequest) -> Text {
        self.cloud.terms(request)
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        self.report(CloudAction::Launch, self.calls.measure(0, self.cloud.launch(request)).await)
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        self.report(CloudAction::Terminate, self.calls.measure(1, self.cloud.terminate(id, owner)).await)
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        self.report(CloudAction::Describe, self.calls.measure(2, self.cloud.describe(id)).await)
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        self.report(CloudAction::List, self.calls.measure(3, self.cloud.list(cluster)).await)
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        let asked = clock::now();
        let listed = self.calls.measure(3, self.cloud.list_all()).await;
        if listed.is_ok() {
            self.conditions.report(&Dependency::Listing(self.scope.clone()), Ok(()), asked);
        }
        self.report(CloudAction::List, listed)
    }

    async fn resolve_node_class(&self, query: &NodeClassQuery) -> ResolvedNodeClass {
        self.cloud.resolve_node_class(query).await
    }

    async fn shown_notices(&self, asked: &[(Text, InterruptionKind)]) -> Result<Option<Vec<Notice>>, CloudError> {
        self.cloud.shown_notices(asked).await
    }

    async fn status_notices(&self) -> Result<Vec<Notice>, CloudError> {
        let notices = self.cloud.status_notices().await;
        // A cloud without instance status answers without being asked.
        if notices.is_err() { self.report(CloudAction::ReadNotices, notices) } else { notices }
    }

    async fn events(&self) -> Result<Option<Vec<CloudEvent>>, CloudError> {
        match self.cloud.events().await {
            Ok(None) => Ok(None),
            answer => self.report(CloudAction::List, answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};

    use super::*;
    use metrics::series;

    #[tokio::test]
    async fn calls_are_timed_by_method_and_failures_counted_by_karpenters_names() {
        let calls = CloudCalls::default();
        let _id = calls.measure(0, ready(Ok("i-1"))).await;
        for error in [CloudError::NotFound { id: "i-1".into() }, CloudError::RequestLimitExceeded { retry_after_ms: 1 }]
        {
            let _error = calls.measure(1, ready(Err::<(), _>(error))).await;
        }
        let lines = series(calls.families());
        for line in [
            "karpenter_cloudprovider_duration_seconds_count{method=\"Create\"} 1",
            "karpenter_cloudprovider_duration_seconds_count{method=\"Delete\"} 2",
            "karpenter_cloudprovider_duration_seconds_count{method=\"List\"} 0",
            "karpenter_cloudprovider_errors_total{method=\"Delete\",error=\"NodeClaimNotFoundError\"} 1",
            "karpenter_cloudprovider_errors_total{method=\"Delete\",error=\"\"} 1",
            "karpenter_cloudprovider_errors_total{method=\"Create\",error=\"InsufficientCapacityError\"} 0",
        ] {
            assert!(lines.iter().any(|one| one == line), "{line} is not among {lines:#?}");
        }
    }

    /// The answer to a launch of a cloud that answers so, and what does not work a minute later.
    fn outage_of(answer: Result<(), CloudError>) -> Vec<String> {
        let conditions = Arc::<Conditions>::default();
        let scope = Scope::Region { account: "1".to_owned(), region: "eu-west-1".to_owned() };
        let cloud = Arc::new(ClockedCloud::new(SimulatedCloud::new(FaultProfile::default(), None), clock::now));
        let cloud = MeasuredCloud::new(cloud, scope, Arc::clone(&conditions));
        let _answer = cloud.report(CloudAction::Launch, answer);
        let found = conditions.failing(clock::now() + model::Millis::from_mins(1));
        found.iter().map(|condition| condition.dependency.to_string()).collect()
    }

    #[test]
    fn a_call_says_whether_the_cloud_answers_and_allows_it() {
        let refused = |code: &str| {
            Err(CloudError::Refused { operation: "CreateFleet".into(), code: code.into(), message: String::new() })
        };
        let place = "region eu-west-1 of account 1";
        assert_eq!(outage_of(Ok(())), Vec::<String>::new());
        assert_eq!(outage_of(Err(CloudError::NotFound { id: "i-1".into() })), Vec::<String>::new());
        let silent = Err(CloudError::Unknown { operation: "CreateFleet".into() });
        assert_eq!(outage_of(silent), [format!("cloud, {place}")]);
        assert_eq!(outage_of(refused("AuthFailure")), [format!("cloud, {place}")]);
        assert_eq!(outage_of(refused("UnauthorizedOperation")), [format!("right to launch, {place}")]);
    }
}
