//! Assembles the parsed objects into one planning input.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use cloud::catalogue::Snapshot;
use manifests::cluster::pods::PodObject;
use manifests::cluster::workload::DaemonObject;
use manifests::cluster::{Cluster, each};
use manifests::inventory::Inventory;
use manifests::karpenter::{
    NodeClaimManifest, NodeClassManifest, NodeOverlayManifest, NodePoolManifest, well_known_labels,
};
use manifests::kinds::Kind;
use manifests::notes::Notes;
use manifests::{InputError, Problems, Volumes};
use model::attach_limits::lower_attach_limits;
use model::input::{PlanningInput, Policy};
use model::labels::HOSTNAME;
use model::node_class::SubnetZone;
use model::running::{RunningCluster, RunningNode};
use model::{DaemonSet, DisruptionPolicy, Node, NodePool, NodeStage, PoolName, Text, Zone};

use crate::claims::ClaimFacts;
use crate::disruption_policy::disruption_policy;
use crate::drains::BudgetedPods;
use crate::options::Options;
use crate::owners::Owners;
use crate::pods::Reader;
use crate::pools::CatalogueSource;
use crate::prices::NodePrices;
use crate::region::Search;
use crate::spread::SpreadDefaults;
use crate::tables::Tables;
use crate::unknown_labels::note_unknown_labels;
use crate::{autoscalers, external_pools, nodes, overhead, pools, region, running};

/// Result of reading.
#[derive(Debug, Clone)]
pub struct Captured {
    /// The planning input.
    pub input: PlanningInput,
    /// Notes for the user, sorted, without duplicates.
    pub notes: Vec<String>,
    /// The region that is planned in.
    pub region: String,
    /// Day of its prices, such as `2026-05-12`; `None` when the catalogue does not state it.
    pub price_date: Option<Text>,
    /// What runs on the nodes; empty unless it was asked for ([`Options::repack`], [`Options::disrupt`]).
    pub running: RunningCluster,
}

/// Karpenter's objects of the input, parsed.
#[derive(Debug)]
struct Karpenter {
    pools: Vec<NodePoolManifest>,
    classes: Vec<NodeClassManifest>,
    claims: Vec<NodeClaimManifest>,
    overlays: Vec<NodeOverlayManifest>,
}

impl Karpenter {
    fn read(inventory: &Inventory, problems: &Problems, notes: &mut Notes) -> Self {
        let pools = each(inventory, Kind::NodePool, problems, |_, at| {
            let mut lines = Vec::new();
            (NodePoolManifest::read(at, &mut lines), lines)
        });
        let mut read = Self {
            pools: Vec::new(),
            classes: some(each(inventory, Kind::Ec2NodeClass, problems, |_, at| NodeClassManifest::read(at))),
            claims: some(each(inventory, Kind::NodeClaim, problems, |_, at| NodeClaimManifest::read(at))),
            overlays: some(each(inventory, Kind::NodeOverlay, problems, |_, at| NodeOverlayManifest::read(at))),
        };
        for (pool, lines) in pools {
            read.pools.extend(pool);
            lines.into_iter().for_each(|line| notes.line(line));
        }
        read
    }
}

fn some<T>(items: Vec<Option<T>>) -> Vec<T> {
    items.into_iter().flatten().collect()
}

/// Builds the planning input of `inventory`. The caller must not use the result when `problems` has
/// errors.
pub fn assemble(mut inventory: Inventory, options: &Options, problems: &Problems, notes: &mut Notes) -> Captured {
    let mut cluster = Cluster::read(&mut inventory, problems, notes);
    autoscalers::set_replicas(&mut cluster, options.autoscaled_replicas, notes);
    let mut karpenter = Karpenter::read(&inventory, problems, notes);
    let defaults = SpreadDefaults::read(&inventory, &cluster.workloads, options, problems, notes);
    drop(inventory);
    apply_reservations(&mut karpenter.classes, options, notes);
    let external = external_pools::remove_external_pools(&mut karpenter.pools, &karpenter.classes, options, notes);
    let nothing = |region: Text| Captured {
        input: PlanningInput::default(),
        notes: Vec::new(),
        region: region.to_string(),
        price_date: None,
        running: RunningCluster::default(),
    };
    // Each step needs the one before: the region determines the zones, these the offerings, and
    // these the capacity of NodeClaims without a Node.
    let Some(snapshot) = snapshot(options, problems) else { return nothing(Text::default()) };
    let mut search = Search::new(&snapshot, &cluster, &karpenter.claims, &karpenter.classes, &karpenter.pools);
    search.add_flag(&options.zones);
    let wanted = options.region.as_deref().map(Text::from);
    let region = search.region(wanted.as_ref(), problems, notes);
    if !problems.is_empty() {
        return nothing(region);
    }
    let zones = search.zones(&region, zones_of_pods(&cluster));
    let needs_zones = !options.allow_no_zones && !karpenter.pools.is_empty();
    if needs_zones && zones.is_empty() && snapshot.zones(&region).is_empty() {
        problems.add(InputError::of_source("input", region::unknown_zones_message(&region, &snapshot)));
        return nothing(region);
    }
    if options.zones.is_empty() {
        note_assumed_zones(&karpenter, &region, notes);
    } else {
        restrict_zones(&mut karpenter.classes, &options.zones);
    }
    let catalogue_source = CatalogueSource { snapshot: &snapshot, region: &region, zones: &zones };
    let Karpenter { pools, classes, claims, overlays } = karpenter;
    let policies: BTreeMap<PoolName, DisruptionPolicy> =
        pools.iter().map(|pool| (pool.name.clone(), disruption_policy(pool))).collect();
    let facts = options.disrupt.then(|| ClaimFacts::of(&pools, &classes));
    let mut pools = pools::build_pools(catalogue_source, pools, &classes, &overlays, notes);
    note_unknown_labels(&pools, notes);
    pools.iter_mut().for_each(|pool| apply_flags(pool, options));
    overhead::set_overheads(&mut pools, &classes, options, notes);
    let nodes = nodes::build(&cluster, &claims, &pools, notes);
    let nodes: Vec<Node> = nodes.into_iter().map(|node| external.clear_pool(node)).collect();
    let prices = || NodePrices::new(catalogue_source, &pools);
    let read = match (options.repack, &facts) {
        (_, Some(facts)) => {
            facts.running_nodes((&cluster, &claims), &nodes, (&pools, &policies), &prices(), notes, options.now)
        }
        (true, None) => running::nodes_with_price(&cluster, &nodes, &prices(), notes),
        (false, None) => Vec::new(),
    };
    let (input, mut running) = populate(&cluster, (nodes, read), pools, (options, defaults), problems, notes);
    if options.disrupt {
        running.policies = policies;
    }
    let price_date = snapshot.region(&region).and_then(|region| region.price_date.clone());
    Captured { input, notes: Vec::new(), region: region.to_string(), price_date, running }
}

/// Sets the free instances of capacity reservations to the counts of `--reservation`, which take
/// precedence over the status.
fn apply_reservations(classes: &mut [NodeClassManifest], options: &Options, notes: &mut Notes) {
    for (id, count) in &options.reservations {
        let entries = classes.iter_mut().flat_map(|class| &mut class.settings.reservations);
        let mut entries = entries.filter(|entry| entry.id.as_ref() == id).peekable();
        if entries.peek().is_none() {
            notes.line(format!("--reservation {id}={count}: no EC2NodeClass has that reservation in its status"));
        }
        entries.for_each(|entry| entry.count = Some(*count));
    }
}

/// Sets `zones` as the subnet zones of every NodeClass that has no status.
fn restrict_zones(classes: &mut [NodeClassManifest], zones: &[String]) {
    for class in classes.iter_mut().filter(|class| class.settings.zones.is_none()) {
        let subnet = |name: &String| SubnetZone { name: name.as_str().into(), id: None };
        class.settings.zones = Some(zones.iter().map(subnet).collect());
    }
}

/// Notes the NodeClasses of pools whose subnets are unknown: only the controller in their cluster
/// writes the subnets, to the status.
fn note_assumed_zones(karpenter: &Karpenter, region: &Text, notes: &mut Notes) {
    let is_used = |class: &&NodeClassManifest| karpenter.pools.iter().any(|pool| pool.class.name == class.name);
    let unknown = karpenter.classes.iter().filter(|class| class.settings.zones.is_none()).filter(is_used);
    for class in unknown {
        notes.line(format!(
            "EC2NodeClass {} has no subnets in its status: every zone of {region} is assumed; --zones names those of its subnets",
            class.name
        ));
    }
}

fn snapshot<'o>(options: &'o Options, problems: &Problems) -> Option<Cow<'o, Snapshot>> {
    if let Some(snapshot) = &options.snapshot {
        return Some(Cow::Borrowed(snapshot));
    }
    let (read, name) = match &options.catalogue {
        Some(source) => {
            (Snapshot::parse(&source.bytes).map(Cow::Owned).map_err(|error| error.to_string()), source.name.as_str())
        }
        None => (Snapshot::builtin().map(Cow::Borrowed).map_err(ToString::to_string), "built-in catalogue"),
    };
    read.map_err(|message| problems.add(InputError::of_source(name, message))).ok()
}

fn zones_of_pods(cluster: &Cluster) -> impl Iterator<Item = Zone> + '_ {
    let templates = cluster.workloads.iter().map(|workload| &workload.template.spec);
    let zones: BTreeSet<Zone> =
        cluster.pods.iter().map(|pod| &pod.spec).chain(templates).flat_map(|spec| spec.zones()).collect();
    zones.into_iter()
}

/// Applies the flags to `pool`; its annotations take precedence.
fn apply_flags(pool: &mut NodePool, options: &Options) {
    let rules = &mut pool.rules;
    rules.max_node_vcpu = rules.max_node_vcpu.or(options.max_node_vcpu);
    rules.min_nodes = rules.min_nodes.or(options.min_nodes);
}

fn populate(
    cluster: &Cluster,
    (mut nodes, running): (Vec<Node>, Vec<Option<RunningNode>>),
    mut pools: Vec<NodePool>,
    (options, defaults): (&Options, SpreadDefaults<'_>),
    problems: &Problems,
    notes: &mut Notes,
) -> (PlanningInput, RunningCluster) {
    lower_attach_limits(&mut pools, &nodes);
    let staying = nodes.iter().filter(|node| node.stage != NodeStage::Deleting);
    let hosts: BTreeSet<Text> = staying.filter_map(|node| node.labels.get(HOSTNAME).cloned()).collect();
    let volumes = Volumes::new(cluster, hosts);
    let local = volumes.local_limits();
    for node in &mut nodes {
        let limits = node.labels.get(HOSTNAME).and_then(|host| local.get(host));
        node.attach_limits.extend(limits.into_iter().flatten().cloned());
    }
    let mut reader = Reader {
        cluster,
        owners: Owners::new(&cluster.workloads),
        volumes,
        schedulers: &options.schedulers,
        defaults,
        budgeted_pods: BudgetedPods::new(&cluster.budgets),
        tables: Tables::default(),
        notes,
        problems,
        pods: Vec::new(),
        running,
    };
    // Pods first: the reader fills the shared tables and counts the pods that budgets select.
    reader.read(&mut nodes);
    let daemons = daemons(cluster, &mut reader);
    let Reader { tables, pods, budgeted_pods, running, .. } = reader;
    let running = match options.repack || options.disrupt {
        true => RunningCluster {
            nodes: running.into_iter().flatten().collect(),
            pod_budgets: running::pod_budgets(&cluster.budgets, &budgeted_pods),
            policies: BTreeMap::new(),
        },
        false => RunningCluster::default(),
    };
    budgeted_pods.blocked_drains(&cluster.budgets).into_iter().for_each(|line| notes.line(line));
    let input = PlanningInput {
        shapes: tables.shapes.into_values(),
        label_sets: tables.labels.into_values(),
        volume_sets: tables.volumes.into_values(),
        pods,
        nodes,
        pools,
        daemons,
        namespaces: cluster.namespaces.clone(),
        policy: policy(options),
        now: options.now,
    };
    (input, running)
}

/// The DaemonSets, each with the requests of its newest pod where it has one: what creates pods may state others
/// than the template (Karpenter: daemon overhead).
fn daemons(cluster: &Cluster, reader: &mut Reader<'_>) -> Vec<DaemonSet> {
    let mut newest: BTreeMap<(&Text, &Text), &PodObject> = BTreeMap::new();
    for pod in cluster.pods.iter().filter(|pod| pod.is_active()) {
        let Some(daemon) = pod.meta.owned_by("DaemonSet") else { continue };
        let known = newest.entry((&pod.meta.namespace, daemon)).or_insert(pod);
        if (known.meta.created, &known.meta.name) < (pod.meta.created, &pod.meta.name) {
            *known = pod;
        }
    }
    let staying = cluster.daemons.iter().filter(|daemon| !daemon.meta.deleting);
    let read = |daemon: &DaemonObject| {
        let sample = newest.get(&(&daemon.meta.namespace, &daemon.meta.name));
        let spec = match sample {
            Some(pod) => daemon.template.spec.requesting(&pod.spec),
            None => daemon.template.spec.clone(),
        };
        let pod = reader.prototype(&daemon.meta.namespace, &spec, &daemon.template.labels);
        DaemonSet { namespace: pod.namespace, name: daemon.meta.name.clone(), shape: pod.shape, labels: pod.labels }
    };
    staying.map(read).collect()
}

fn policy(options: &Options) -> Policy {
    Policy {
        preferences: options.preferences,
        min_values: options.min_values,
        well_known_labels: well_known_labels(),
        search_steps: options.search_steps,
        seed: options.seed,
        nominations: options.nominations,
        ..Policy::default()
    }
}
