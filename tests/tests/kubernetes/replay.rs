//! The commands of `fleetwright plan --disrupt`, carried out step by step in small random clusters: kube-scheduler judges each
//! move.
//!
//! The nodes of a cluster and its pods share a label, so that no other node takes part. Each pod that is moved is nominated, as
//! the agent does, so that kube-scheduler tries the planned node first. Where it binds a pod elsewhere, the rest of the plan is
//! carried out all the same; a pod that it cannot bind fails the scenario.

mod case;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Poll, is_ready, taints, wait_until};
use e2e::kubernetes::kubelets::{KubeletTiming, Kubelets};
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use e2e::{Program, TempDir};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use case::{Case, NodeCase, PodCase};

/// Variable with the number of clusters; sixty have more than fifty commands.
const CLUSTERS: &str = "FLEETWRIGHT_E2E_REPLAYS";
const DEFAULT_CLUSTERS: u64 = 6;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Time within which kube-scheduler binds a pod.
const BOUND_WITHIN: Duration = Duration::from_secs(30);

/// The end of the names of pods that were moved.
const MOVED: &str = "-moved";
/// Keeps a pod from kube-scheduler until it is nominated.
const GATE: &str = "fleetwright.test/nomination";

#[derive(Debug, Default)]
struct Totals {
    /// By reason.
    commands: BTreeMap<String, usize>,
    moved: usize,
    where_planned: usize,
    /// The longest that a moved pod waited.
    longest: Duration,
}

fn clusters() -> anyhow::Result<u64> {
    match std::env::var(CLUSTERS) {
        Ok(number) if !number.is_empty() => number.parse::<u64>().with_context(|| format!("{CLUSTERS} is no number")),
        _ => Ok(DEFAULT_CLUSTERS),
    }
}

pub(super) async fn every_moved_pod_is_bound(test_bed: Arc<TestBed>) -> ScenarioResult {
    let at_once = Duration::ZERO;
    let timing =
        KubeletTiming { boot: (at_once, at_once), ready: at_once, forgotten: at_once, ..KubeletTiming::default() };
    let (types, kubelets) = (Types::builtin(case::REGION)?, Kubelets::new(test_bed.client.clone(), timing));
    let (clusters, mut figures) = (clusters()?, Totals::default());
    for seed in 0..clusters {
        let cluster = Cluster::with_namespace(&test_bed.client, &format!("replay-{seed}")).await?;
        let case = Case::random(seed, &types)?;
        let program = test_bed.programs.server.display().to_string();
        let mut replay = Replay { cluster, case, program, types: &types, kubelets: &kubelets };
        // Nodes leave after their command, or all of them at the end.
        let output = replay.run(seed % 2 == 0, &mut figures).await;
        let cleared = replay.clear().await;
        output.with_context(|| format!("cluster {seed}"))?;
        cleared.with_context(|| format!("cluster {seed} is not cleared"))?;
    }
    let commands: usize = figures.commands.values().sum();
    ensure!(figures.moved > 0, "no pod was moved in {clusters} clusters: {figures:?}");
    Ok(format!(
        "{clusters} clusters, {commands} commands {:?}, {} pods moved and bound, {} where planned; longest wait {:.1} s",
        figures.commands,
        figures.moved,
        figures.where_planned,
        figures.longest.as_secs_f64()
    ))
}

fn text<'v>(value: &'v Value, key: &str) -> anyhow::Result<&'v str> {
    value[key].as_str().with_context(|| format!("no {key} in {value}"))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn names(value: &Value, key: &str) -> Vec<String> {
    list(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A cluster on the control plane.
struct Replay<'s> {
    cluster: Cluster,
    case: Case,
    program: String,
    types: &'s Types,
    kubelets: &'s Kubelets,
}

impl Replay<'_> {
    async fn run(&mut self, leave_at_once: bool, figures: &mut Totals) -> anyhow::Result<()> {
        self.set_up().await?;
        let plan = self.plan(&["--disrupt"]).await?;
        let commands = list(&plan, "commands");
        // Pods of a command may move to the replacement of a later one: what a plan launches is launched together.
        self.launch(commands).await?;
        let mut leaving = Vec::new();
        for (number, command) in commands.iter().enumerate() {
            self.carry_out(command, figures).await.with_context(|| format!("command {number}: {command:#}"))?;
            leaving.extend(names(command, "nodes"));
            if leave_at_once {
                self.remove_nodes(&std::mem::take(&mut leaving)).await?;
            }
        }
        self.remove_nodes(&leaving).await?;
        self.read_places().await?;
        self.ensure_nothing_is_bought().await.with_context(|| format!("after: {plan:#}"))?;
        for at in 0..self.case.pods.len() {
            if self.case.pods[at].name.ends_with(MOVED) {
                let node = std::mem::take(&mut self.case.pods[at].node);
                let bought = self.ensure_nothing_is_bought().await;
                bought.with_context(|| format!("while {} waits, after: {plan:#}", self.case.pods[at].name))?;
                self.case.pods[at].node = node;
            }
        }
        Ok(())
    }

    /// What there is suffices for all pods, those that wait included.
    async fn ensure_nothing_is_bought(&self) -> anyhow::Result<()> {
        let plan = self.plan(&[]).await?;
        let bought = ["nodes", "staticNodes", "unschedulable"].map(|key| list(&plan, key).len());
        ensure!(bought == [0, 0, 0], "the result is not enough for its pods: {plan:#}");
        Ok(())
    }

    /// Nodes, and pods on them.
    async fn set_up(&self) -> anyhow::Result<()> {
        let account = self.cluster.objects("v1", "ServiceAccount");
        let poll = || async {
            Ok(match account.get_opt("default").await? {
                Some(_) => Poll::Ready(()),
                None => Poll::Pending("no service account default".to_owned()),
            })
        };
        wait_until("pods are admitted", TIMEOUT, poll).await?;
        self.case.nodes.iter().for_each(|node| self.kubelets.boot_machine(node.machine.clone()));
        let nodes: Vec<String> = self.case.nodes.iter().map(|node| node.machine.id.clone()).collect();
        self.wait_until_usable(&nodes).await?;
        for pod in &self.case.pods {
            let mut object = self.case.unbound(pod);
            object["spec"]["nodeName"] = json!(pod.node);
            self.create_pod(object).await?;
        }
        let running = || async {
            let is_running =
                |pod: &&Pod| pod.status.as_ref().is_some_and(|one| one.phase.as_deref() == Some("Running"));
            let running = self.cluster.pods().await?.iter().filter(is_running).count();
            let wanted = self.case.pods.len();
            Ok(if running == wanted {
                Poll::Ready(())
            } else {
                Poll::Pending(format!("{running} of {wanted} pods run"))
            })
        };
        wait_until("the pods of the nodes run", TIMEOUT, running).await
    }

    /// What the program plans for the cluster.
    async fn plan(&self, more: &[&str]) -> anyhow::Result<Value> {
        let folder = TempDir::new();
        for (number, object) in self.case.objects(&self.cluster.namespace).iter().enumerate() {
            let _path = folder.write_file(&format!("{number}.yaml"), object.to_string());
        }
        let path = folder.path().display().to_string();
        let arguments = [&["plan", "-f", &path, "--now", case::NOW, "-o", "json"], more].concat();
        let program = Program::new(&self.program, &arguments);
        let ended = tokio::task::spawn_blocking(move || program.run(TIMEOUT)).await?;
        ensure!(ended.status == 0, "{arguments:?} ends with {}: {}\n{}", ended.status, ended.stderr, ended.stdout);
        serde_json::from_str(&ended.stdout).context("the plan is no JSON")
    }

    /// The replacements of all commands join.
    async fn launch(&mut self, commands: &[Value]) -> anyhow::Result<()> {
        let mut joined = Vec::new();
        for launch in commands.iter().flat_map(|command| list(command, "replacements")) {
            let node = NodeCase::launched(launch, self.types)?;
            joined.push(node.machine.id.clone());
            self.kubelets.boot_machine(node.machine.clone());
            self.case.nodes.push(node);
        }
        self.wait_until_usable(&joined).await
    }

    /// The nodes of a command are tainted, and their pods are evicted and bound one after another. The nodes stay.
    async fn carry_out(&mut self, command: &Value, figures: &mut Totals) -> anyhow::Result<()> {
        for node in names(command, "nodes") {
            let taint = json!({ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" });
            self.cluster.patch("v1", "Node", &node, json!({ "spec": { "taints": [taint] } })).await?;
        }
        let placements = list(command, "placements");
        for placement in placements {
            let name = pod_name(placement)?;
            self.delete_pod(name).await?;
            self.cluster.wait_until_gone("v1", "Pod", name, TIMEOUT).await?;
        }
        for placement in placements {
            self.bind_successor(pod_name(placement)?, text(placement, "node")?, figures).await?;
        }
        *figures.commands.entry(text(command, "reason")?.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Creates the pod in place of the one that was evicted, and waits until kube-scheduler has bound it.
    async fn bind_successor(&mut self, evicted: &str, planned: &str, figures: &mut Totals) -> anyhow::Result<()> {
        let at = self.case.pods.iter().position(|pod| pod.name == evicted);
        let at = at.with_context(|| format!("the cluster has no pod {evicted}"))?;
        let successor = PodCase { name: format!("{evicted}{MOVED}"), ..self.case.pods[at].clone() };
        let mut object = self.case.unbound(&successor);
        object["spec"]["schedulingGates"] = json!([{ "name": GATE }]);
        self.create_pod(object).await?;
        let pods = Api::<Pod>::namespaced(self.cluster.client.clone(), &self.cluster.namespace);
        let nomination = Patch::Merge(json!({ "status": { "nominatedNodeName": planned } }));
        pods.patch_status(&successor.name, &PatchParams::default(), &nomination).await?;
        let begun = Instant::now();
        self.cluster.patch("v1", "Pod", &successor.name, json!({ "spec": { "schedulingGates": null } })).await?;
        let poll = || async {
            let pod = pods.get(&successor.name).await?;
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            Ok(node.map_or_else(|| Poll::Pending(scheduling(&pod)), Poll::Ready))
        };
        let node = wait_until(&format!("{evicted} is bound again, as planned to {planned}"), BOUND_WITHIN, poll).await;
        let node = node.with_context(|| self.places())?;
        figures.longest = figures.longest.max(begun.elapsed());
        figures.moved += 1;
        figures.where_planned += usize::from(node == planned);
        self.case.pods[at] = PodCase { node, ..successor };
        Ok(())
    }

    /// Where each pod is, for the report of a failure.
    fn places(&self) -> String {
        let places = self.case.pods.iter().map(|pod| format!("{} on {}", pod.name, pod.node));
        format!("pods before: {}", places.collect::<Vec<_>>().join(", "))
    }

    /// The nodes of all pods, as the API server has them.
    async fn read_places(&mut self) -> anyhow::Result<()> {
        let pods = self.cluster.pods().await?;
        for case in &mut self.case.pods {
            let pod = pods.iter().find(|pod| pod.name_any() == case.name);
            let node = pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone());
            case.node = node.with_context(|| format!("pod {} is not bound any more", case.name))?;
        }
        ensure!(pods.len() == self.case.pods.len(), "{} pods, and {} planned", pods.len(), self.case.pods.len());
        Ok(())
    }

    async fn create_pod(&self, object: Value) -> anyhow::Result<()> {
        let pod: DynamicObject = serde_json::from_value(object).context("no object of Kubernetes")?;
        let created = self.cluster.objects("v1", "Pod").create(&PostParams::default(), &pod).await;
        created.map(drop).with_context(|| format!("cannot create pod {}", pod.name_any()))
    }

    async fn delete_pod(&self, name: &str) -> anyhow::Result<()> {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        match self.cluster.objects("v1", "Pod").delete(name, &now).await {
            Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(()),
            answered => answered.map(drop).with_context(|| format!("cannot delete pod {name}")),
        }
    }

    async fn wait_until_usable(&self, nodes: &[String]) -> anyhow::Result<()> {
        let poll = || async {
            let all = self.cluster.nodes().await?;
            let waiting: Vec<&String> = nodes.iter().filter(|name| !is_usable(&all, name)).collect();
            Ok(if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending(format!("not yet: {waiting:?}")) })
        };
        wait_until("the nodes are ready", TIMEOUT, poll).await
    }

    async fn remove_nodes(&mut self, nodes: &[String]) -> anyhow::Result<()> {
        nodes.iter().for_each(|node| self.kubelets.lose_machine(node));
        for node in nodes {
            self.cluster.wait_until_gone("v1", "Node", node, TIMEOUT).await?;
        }
        self.case.nodes.retain(|node| !nodes.contains(&node.machine.id));
        Ok(())
    }

    async fn clear(&mut self) -> anyhow::Result<()> {
        for pod in self.cluster.pods().await? {
            self.delete_pod(&pod.name_any()).await?;
        }
        let nodes: Vec<String> = self.case.nodes.iter().map(|node| node.machine.id.clone()).collect();
        self.remove_nodes(&nodes).await
    }
}

/// The pod of a placement, without its namespace.
fn pod_name(placement: &Value) -> anyhow::Result<&str> {
    let pod = text(placement, "pod")?;
    pod.split_once('/').map(|(_, name)| name).with_context(|| format!("{pod} has no namespace"))
}

fn is_usable(nodes: &[Node], name: &str) -> bool {
    nodes.iter().any(|node| node.name_any() == name && is_ready(node) && taints(node).is_empty())
}

/// What kube-scheduler says of a pod that it has not bound.
fn scheduling(pod: &Pod) -> String {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let scheduled = conditions.into_iter().flatten().find(|condition| condition.type_ == "PodScheduled");
    let words = scheduled.map(|one| [one.status.as_str(), or_empty(&one.reason), or_empty(&one.message)].join(" "));
    words.unwrap_or_else(|| "not tried yet".to_owned())
}

fn or_empty(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}
