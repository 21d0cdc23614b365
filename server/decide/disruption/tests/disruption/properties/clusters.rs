//! Random clusters of a few nodes, and what becomes of them when a plan is carried out.

use disruption::{DisruptionPlan, Settings};
use model::{CapacityType, MicroUsd};

use crate::objects::{node, pod, pod_budget, pool};

/// The SplitMix64 generator (Steele, Lea, Flood 2014).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub fn of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        let bound = u64::try_from(choices.len()).unwrap_or(1);
        choices[usize::try_from(self.below(bound)).unwrap_or(0)]
    }
}

#[derive(Debug, Clone, Default)]
pub struct NodeCase {
    name: String,
    machine: String,
    pool: String,
    is_spot: bool,
    zone: String,
    is_protected: bool,
    is_drifted: bool,
    is_expired: bool,
    is_waiting: bool,
    is_starting: bool,
}

#[derive(Debug, Clone, Default)]
pub struct PodCase {
    pub name: String,
    /// Empty for a pod that waits.
    pub node: String,
    app: usize,
    half_cpus: u64,
    zone: String,
    has_owner: bool,
    is_protected: bool,
}

#[derive(Debug, Clone)]
pub struct Cluster {
    pub settings: Settings,
    pub nodes: Vec<NodeCase>,
    pub pods: Vec<PodCase>,
    budgets: String,
    /// By app, the evictions that its PodDisruptionBudget allows.
    allowed: Vec<Option<u32>>,
    has_daemons: bool,
}

const APPS: usize = 4;
/// Pods of this app exclude each other from a node.
const EXCLUSIVE: usize = 1;
/// Pods of this app are spread over zones.
const SPREAD: usize = 2;
/// Pods of this app run in the zone of the node that they are on first.
const ZONED: usize = 3;

const EXCLUSIVE_RULE: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                              kubernetes.io/hostname, labelSelector: {matchLabels: {app: app1}}}]}}";
const SPREAD_RULE: &str = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
                           whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: app2}}}]";

fn half_cpus(machine: &str) -> u64 {
    if machine == "box" { 8 } else { 16 }
}

impl Cluster {
    /// The cluster of `seed`. Where some are `held`, a few nodes and pods are protected, budgets are set, and spot may
    /// replace spot: then machines that have just been launched are replaced in groups.
    pub fn random(seed: u64, held: bool) -> Self {
        let mut numbers = Numbers(seed);
        let mut cluster = Self {
            settings: Settings {
                min_savings: MicroUsd(if numbers.one_in(4) { 50_000 } else { 0 }),
                churn_price: MicroUsd(if numbers.one_in(4) { 10_000 } else { 0 }),
                spot_to_spot: numbers.one_in(2) && held,
                node_repair: false,
                ..Settings::default()
            },
            nodes: Vec::new(),
            pods: Vec::new(),
            budgets: String::new(),
            allowed: vec![None; APPS],
            has_daemons: numbers.one_in(4),
        };
        if held {
            let budgets =
                ["", "", "{nodes: \"1\"}", "{nodes: 50%}", "{nodes: \"1\", reasons: [Underutilized, Drifted]}"];
            cluster.budgets = numbers.of(&budgets).to_owned();
            for allowed in &mut cluster.allowed {
                *allowed = numbers.one_in(5).then(|| u32::try_from(numbers.below(3)).unwrap_or(0));
            }
        }
        for at in 0..2 + numbers.below(6) {
            let node = cluster.random_node(at, held, &mut numbers);
            cluster.nodes.push(node);
            cluster.fill(held, &mut numbers);
        }
        for _ in 0..if held { numbers.below(3) } else { 0 } {
            let pod = cluster.random_pod("", held, &mut numbers);
            cluster.pods.push(pod);
        }
        cluster
    }

    fn random_node(&self, at: u64, held: bool, numbers: &mut Numbers) -> NodeCase {
        let pool = numbers.of(&["default", "flex"]);
        let name = format!("n-{at}");
        NodeCase {
            name,
            machine: numbers.of(&["box", "big"]).to_owned(),
            is_spot: pool == "flex" && numbers.one_in(2),
            pool: pool.to_owned(),
            zone: numbers.of(&["lab-a", "lab-b"]).to_owned(),
            is_protected: held && numbers.one_in(8),
            is_drifted: numbers.one_in(10),
            is_expired: numbers.one_in(10),
            is_waiting: held && numbers.one_in(8),
            is_starting: held && numbers.one_in(12),
        }
    }

    /// Adds pods to the last node, which has capacity for them.
    fn fill(&mut self, held: bool, numbers: &mut Numbers) {
        let Some(node) = self.nodes.last().cloned() else { return };
        let mut free = half_cpus(&node.machine) - if self.has_daemons { 1 } else { 0 };
        for _ in 0..numbers.below(5) {
            let pod = self.random_pod(&node.name, held, numbers);
            let excluded = |other: &PodCase| other.node == node.name && other.app == EXCLUSIVE && pod.app == EXCLUSIVE;
            if pod.half_cpus <= free && !self.pods.iter().any(excluded) {
                free -= pod.half_cpus;
                self.pods.push(PodCase { zone: node.zone.clone(), ..pod });
            }
        }
    }

    fn random_pod(&self, node: &str, held: bool, numbers: &mut Numbers) -> PodCase {
        let app = usize::try_from(numbers.below(4)).unwrap_or(0);
        PodCase {
            name: format!("app{app}-{}", self.pods.len()),
            node: node.to_owned(),
            app,
            half_cpus: 1 + numbers.below(6),
            zone: "lab-a".to_owned(),
            has_owner: !held || !numbers.one_in(15),
            is_protected: held && numbers.one_in(15),
        }
    }

    /// Whether the pod must run elsewhere when its node goes.
    pub fn needs_place(&self, pod: &PodCase) -> bool {
        pod.has_owner && !pod.is_protected && self.allowed[pod.app] != Some(0)
    }

    /// Whether the pod is spread over zones.
    pub fn is_spread(&self, name: &str) -> bool {
        self.pods.iter().any(|pod| pod.name == name && pod.app == SPREAD)
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for name in ["default", "flex"] {
            let disruption = format!("consolidateAfter: 10m, budgets: [{}]", self.budgets);
            text += &pool(name).disruption(&disruption).text();
        }
        text += &self.nodes.iter().map(NodeCase::text).collect::<String>();
        text += &self.pods.iter().map(PodCase::text).collect::<String>();
        for (app, allowed) in self.allowed.iter().enumerate() {
            text += &allowed.map_or_else(String::new, |allowed| pod_budget(&format!("app{app}"), allowed));
        }
        if self.has_daemons {
            text += "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: shop}\nspec: {selector: \
                     {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: \
                     a, resources: {requests: {cpu: 500m}}}]}}}\n---\n";
            for node in self.nodes.iter().filter(|node| !node.is_starting) {
                let agent = pod("agent", &node.name, "500m").owner("DaemonSet").text();
                text += &agent.replacen("name: agent,", &format!("name: agent-{},", node.name), 1);
            }
        }
        text
    }

    /// The cluster after the commands of `plan`: replacements are initialized as their first option, moved pods run
    /// where they were placed, and the other pods of removed nodes have ended.
    pub fn carried_out(&self, plan: &DisruptionPlan) -> Self {
        let mut after = self.clone();
        let gone: Vec<&str> = plan
            .commands
            .iter()
            .flat_map(|command| &command.nodes)
            .map(|at| plan.input.nodes[*at as usize].name.as_ref())
            .collect();
        for (moved, to) in plan.commands.iter().flat_map(|command| &command.placements) {
            let moved = after.pods.iter_mut().find(|pod| pod.name == moved.name.as_ref());
            moved.expect("a placed pod of the cluster").node = to.to_string();
        }
        after.nodes.retain(|node| !gone.contains(&node.name.as_str()));
        after.pods.retain(|pod| !gone.contains(&pod.node.as_str()));
        for launch in &plan.plan.nodes {
            let pool = &plan.input.pools[launch.pool as usize];
            after.nodes.push(NodeCase {
                name: launch.name.to_string(),
                machine: pool.catalogue.types[launch.types[0] as usize].name.to_string(),
                pool: pool.name.to_string(),
                is_spot: launch.capacity_type == CapacityType::Spot,
                zone: launch.zones[0].to_string(),
                ..NodeCase::default()
            });
        }
        after
    }
}

impl NodeCase {
    fn text(&self) -> String {
        let mut text = node(&self.name, &self.machine).pool(&self.pool).zone(&self.zone);
        if self.is_spot {
            text = text.spot();
        }
        if self.is_protected {
            text = text.do_not_disrupt();
        }
        if self.is_waiting {
            text = text
                .claim_conditions("{type: Registered, status: \"True\"}")
                .claim_status("lastPodEventTime: 2026-01-01T11:55:00Z");
        }
        if self.is_drifted {
            text = text.drifted("2026-01-01T11:00:00Z");
        }
        if self.is_expired {
            text = text.expires_after("12h");
        }
        if self.is_starting {
            text = text.not_initialized();
        }
        text.text()
    }
}

impl PodCase {
    fn text(&self) -> String {
        let mut text = pod(&self.name, &self.node, &format!("{}m", 500 * self.half_cpus));
        text = match self.app {
            EXCLUSIVE => text.spec(EXCLUSIVE_RULE),
            SPREAD => text.spec(SPREAD_RULE),
            ZONED => text.spec(&format!("nodeSelector: {{topology.kubernetes.io/zone: {}}}", self.zone)),
            _ => text,
        };
        if !self.has_owner {
            text = text.owner("");
        }
        if self.is_protected {
            text = text.do_not_disrupt("true");
        }
        if self.node.is_empty() {
            text = text.pending("");
        }
        text.text()
    }
}
