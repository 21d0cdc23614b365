//! Operations of a scenario on a cluster.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

/// Field manager of the tests' writes.
const WRITER: &str = "e2e";
/// Interval at which conditions are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prefix of the names of all namespaces that scenarios create.
pub const NAMESPACE_PREFIX: &str = "e2e-";

/// One namespace of a cluster, and the cluster's own objects.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    pub namespace: String,
}

/// Polls until `poll` is ready, for at most `timeout`.
///
/// # Errors
/// The last state of `poll` when the timeout elapses.
pub async fn wait_until<T, F>(what: &str, timeout: Duration, mut poll: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Poll<T>>>,
{
    let end = Instant::now() + timeout;
    loop {
        let last = match poll().await {
            Ok(Poll::Ready(found)) => return Ok(found),
            Ok(Poll::Pending(now)) => now,
            // The API server may be unavailable: the poll is repeated.
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() > end {
            bail!("{what}: not after {timeout:?}; last seen: {last}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[derive(Debug)]
pub enum Poll<T> {
    /// The awaited value.
    Ready(T),
    /// The present state, for the message of a timeout.
    Pending(String),
}

/// [`Poll::Ready`] when they are equal.
pub fn poll_equal<T: PartialEq + std::fmt::Debug>(seen: T, expected: &T) -> Poll<T> {
    if seen == *expected { Poll::Ready(seen) } else { Poll::Pending(format!("{seen:?}, not {expected:?}")) }
}

impl Cluster {
    /// The namespace of the scenario `name`, created if absent.
    ///
    /// # Errors
    /// When the API server rejects the request.
    pub async fn with_namespace(client: &Client, name: &str) -> anyhow::Result<Self> {
        let cluster = Self { client: client.clone(), namespace: format!("{NAMESPACE_PREFIX}{name}") };
        let named = json!({ "name": cluster.namespace });
        cluster.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": named })).await?;
        Ok(cluster)
    }

    /// The objects of any kind: those of the scenario's namespace where the kind has namespaces.
    #[must_use]
    pub fn objects(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        self.at((!is_global(kind)).then_some(&self.namespace), api_version, kind)
    }

    /// The objects of any kind in all namespaces.
    #[must_use]
    pub fn everywhere(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(api_version, kind))
    }

    /// The objects of any kind in `namespace`; those of a kind without namespaces for `None`.
    #[must_use]
    pub fn at(&self, namespace: Option<&str>, api_version: &str, kind: &str) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource(api_version, kind)),
            None => self.everywhere(api_version, kind),
        }
    }

    /// Server-side apply.
    ///
    /// # Errors
    /// When the API server rejects the request.
    pub async fn apply(&self, object: Value) -> anyhow::Result<DynamicObject> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let objects = match text("/metadata/namespace").as_str() {
            "" => self.objects(&text("/apiVersion"), &kind),
            namespace => self.at(Some(namespace), &text("/apiVersion"), &kind),
        };
        let applied = objects.patch(&name, &PatchParams::apply(WRITER).force(), &Patch::Apply(object)).await;
        applied.with_context(|| format!("cannot apply {kind} {name}"))
    }

    /// Applies a Deployment of pods with these requests.
    ///
    /// # Errors
    /// When the API server rejects the request.
    pub async fn deploy(&self, name: &str, replicas: u32, cpu: &str, memory: &str, pod: Value) -> anyhow::Result<()> {
        let mut spec = json!({
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "main", "image": "none", "resources": { "requests": { "cpu": cpu, "memory": memory } } }],
        });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), pod) {
            spec.extend(more);
        }
        let labels = json!({ "app": name });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels },
                // Test pods never crash, so the default deadline has no use.
                "progressDeadlineSeconds": 3600,
                "template": { "metadata": { "labels": labels }, "spec": spec },
            },
        });
        self.apply(deployment).await.map(drop)
    }

    /// A merge patch of one object; returns its new resource version.
    ///
    /// # Errors
    /// When the API server rejects the request.
    pub async fn patch(&self, api_version: &str, kind: &str, name: &str, change: Value) -> anyhow::Result<u64> {
        let objects = self.objects(api_version, kind);
        let changed = objects.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        revision(&changed.with_context(|| format!("cannot change {kind} {name}"))?)
    }

    /// Changes the number of replicas.
    ///
    /// # Errors
    /// When the API server rejects the request.
    pub async fn scale(&self, deployment: &str, replicas: u32) -> anyhow::Result<()> {
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), &self.namespace);
        let expected = json!({ "spec": { "replicas": replicas } });
        let scaled = deployments.patch_scale(deployment, &PatchParams::default(), &Patch::Merge(expected)).await;
        scaled.map(drop).with_context(|| format!("cannot scale {deployment} to {replicas}"))
    }

    /// Ready pods and all pods, according to the Deployments' status.
    ///
    /// # Errors
    /// When the API server does not respond.
    pub async fn ready_pods(&self) -> anyhow::Result<(i32, i32)> {
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), &self.namespace);
        let status = deployments.list(&ListParams::default()).await?.items.into_iter().filter_map(|one| one.status);
        let counts = status.map(|one| (one.ready_replicas.unwrap_or(0), one.replicas.unwrap_or(0)));
        Ok(counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
    }

    /// Waits until the Deployments have exactly `pods` pods, all ready.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn wait_until_ready(&self, pods: i32, timeout: Duration) -> anyhow::Result<()> {
        let poll = || async move { Ok(poll_equal(self.ready_pods().await?, &(pods, pods))) };
        wait_until(&format!("{pods} pods ready in {}", self.namespace), timeout, poll).await.map(drop)
    }

    /// All nodes.
    ///
    /// # Errors
    /// When the API server does not respond.
    pub async fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        Ok(Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?.items)
    }

    /// The pods of the namespace.
    ///
    /// # Errors
    /// When the API server does not respond.
    pub async fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        Ok(Api::<Pod>::namespaced(self.client.clone(), &self.namespace).list(&ListParams::default()).await?.items)
    }

    /// Waits for exactly `expected` nodes, and returns them.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn wait_until_nodes(&self, expected: usize, timeout: Duration) -> anyhow::Result<Vec<Node>> {
        let poll = || async move {
            let nodes = self.nodes().await?;
            let names = || nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(" ");
            Ok(if nodes.len() == expected {
                Poll::Ready(nodes)
            } else {
                Poll::Pending(format!("{}: {}", nodes.len(), names()))
            })
        };
        wait_until(&format!("{expected} nodes"), timeout, poll).await
    }

    /// Waits until the object does not exist.
    ///
    /// # Errors
    /// When it still exists after the timeout.
    pub async fn wait_until_gone(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        timeout: Duration,
    ) -> anyhow::Result<()> {
        let objects = self.objects(api_version, kind);
        let poll = || async {
            Ok(match objects.get_opt(name).await? {
                None => Poll::Ready(()),
                Some(object) => Poll::Pending(format!("finalizers {:?}", object.finalizers())),
            })
        };
        wait_until(&format!("{kind} {name} does not exist"), timeout, poll).await
    }

    /// Deletes one object; a missing object is no error.
    ///
    /// # Errors
    /// When the API server rejects the request.
    pub async fn delete(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<()> {
        match self.objects(api_version, kind).delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(()),
            answered => answered.map(drop).with_context(|| format!("cannot delete {kind} {name}")),
        }
    }
}

/// The resource version of an object. One etcd orders the changes of all kinds by it.
///
/// # Errors
/// When the API server states none, or one that is not a number.
pub fn revision<K: Resource>(object: &K) -> anyhow::Result<u64> {
    let version = object.meta().resource_version.as_deref().context("an object without a resource version")?;
    version.parse().with_context(|| format!("the resource version {version:?} is not a number"))
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn is_global(kind: &str) -> bool {
    const GLOBAL: [&str; 14] = [
        "Namespace",
        "Node",
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "CSINode",
        "PersistentVolume",
        "NodePool",
        "NodeClaim",
        "NodeOverlay",
        "EC2NodeClass",
    ];
    GLOBAL.contains(&kind)
}

#[must_use]
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[must_use]
pub fn taints(node: &Node) -> Vec<&str> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().map(|taint| taint.key.as_str()).collect()
}
