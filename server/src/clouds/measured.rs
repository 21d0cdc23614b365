//! A cloud provider whose calls are counted and timed, for metrics.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use cloud::notice::Notice;
use cloud::provider::{CloudError, CloudEvent, CloudProvider, Instance, LaunchOutcome, LaunchRequest, Owner};
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use model::{ClusterName, Text};

use crate::histogram::Histogram;
use crate::metrics::Family;

/// The calls of this process.
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
    /// Times a call until it is answered. One that is given up is not counted. Calls of an SDK are large values, and so are
    /// passed as pointers: by value, the frames of those that await them would exceed the stack of a thread.
    async fn measure<T>(
        &self,
        method: usize,
        call: Pin<Box<impl Future<Output = Result<T, CloudError>> + Send>>,
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

    /// The metrics.
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
#[derive(Debug)]
pub(crate) struct MeasuredCloud<C> {
    cloud: Arc<C>,
    calls: &'static CloudCalls,
}

impl<C> MeasuredCloud<C> {
    /// `cloud`, whose calls are counted among those of the process.
    pub(crate) fn new(cloud: Arc<C>) -> Self {
        Self { cloud, calls: &CALLS }
    }
}

impl<C: CloudProvider> CloudProvider for MeasuredCloud<C> {
    fn terms(&self, request: &LaunchRequest) -> Text {
        self.cloud.terms(request)
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError> {
        self.calls.measure(0, Box::pin(self.cloud.launch(request))).await
    }

    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError> {
        self.calls.measure(1, Box::pin(self.cloud.terminate(id, owner))).await
    }

    async fn describe(&self, id: &str) -> Result<Instance, CloudError> {
        self.calls.measure(2, Box::pin(self.cloud.describe(id))).await
    }

    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError> {
        self.calls.measure(3, Box::pin(self.cloud.list(cluster))).await
    }

    async fn list_all(&self) -> Result<Vec<Instance>, CloudError> {
        self.calls.measure(3, Box::pin(self.cloud.list_all())).await
    }

    async fn resolve_node_class(&self, query: &NodeClassQuery) -> ResolvedNodeClass {
        Box::pin(self.cloud.resolve_node_class(query)).await
    }

    async fn status_notices(&self) -> Result<Vec<Notice>, CloudError> {
        Box::pin(self.cloud.status_notices()).await
    }

    async fn events(&self) -> Result<Vec<CloudEvent>, CloudError> {
        Box::pin(self.cloud.events()).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::metrics::series;

    #[tokio::test]
    async fn calls_are_timed_by_method_and_failures_counted_by_karpenters_names() {
        let calls = CloudCalls::default();
        let _id = calls.measure(0, Box::pin(ready(Ok("i-1")))).await;
        for error in [CloudError::NotFound { id: "i-1".into() }, CloudError::RequestLimitExceeded { retry_after_ms: 1 }]
        {
            let _error = calls.measure(1, Box::pin(ready(Err::<(), _>(error)))).await;
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
}
