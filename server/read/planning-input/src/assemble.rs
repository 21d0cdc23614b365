//! Assembles the parsed objects into one planning input.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud::catalogue::Snapshot;
use cluster::{ClassRecord, ClusterState, Observation, PoolMeta, PoolRecord};
use manifests::cluster::{Cluster, each};
use manifests::inventory::Inventory;
use manifests::karpenter::{
    NodeClaimManifest, NodeClassManifest, NodeOverlayManifest, NodePoolManifest, well_known_labels,
};
use manifests::kinds::Kind;
use manifests::notes::Notes;
use manifests::{InputError, Problems, Volumes};
use model::drain::is_disrupted;
use model::input::{PlanningInput, Policy};
use model::node_class::SubnetZone;
use model::running::RunningCluster;
use model::{NodePool, PoolName, Text, Zone};

use crate::drains::BudgetedPods;
use crate::drift_facts::drift_facts;
use crate::expand::{Replicas, Tables};
use crate::options::Options;
use crate::owners::Owners;
use crate::pods::PodSurvey;
use crate::pools::{CatalogueSource, ExternalPools};
use crate::prices::NodePrices;
use crate::records::PodReader;
use crate::region::Search;
use crate::running::RunningReader;
use crate::spread::SpreadDefaults;
use crate::unknown_labels::note_unknown_labels;
use crate::{autoscalers, overhead, pools, records, region, running};

#[derive(Debug, Clone)]
pub struct Captured {
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
    let external = pools::remove_external_pools(&mut karpenter.pools, &karpenter.classes, options, notes);
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
    let Karpenter { pools: manifests, classes, claims, overlays } = karpenter;
    let facts: BTreeMap<PoolName, PoolRecord> = manifests.iter().map(|pool| pool_facts(pool, &classes)).collect();
    let mut pools = pools::build_pools(catalogue_source, manifests, &classes, &overlays, notes);
    note_unknown_labels(&pools, notes);
    pools.iter_mut().for_each(|pool| apply_flags(pool, options));
    overhead::set_overheads(&mut pools, &classes, options, notes);
    let statuses = classes.iter().map(class_status).collect();
    let records =
        pools.iter().filter_map(|pool| Some(PoolRecord { pool: pool.clone(), ..facts.get(&pool.name)?.clone() }));
    let karpenter = (records.collect(), statuses, claims.as_slice());
    let prices = || NodePrices::new(catalogue_source, &pools);
    let (input, running) = populate(&cluster, karpenter, (options, defaults, &external), prices, (problems, notes));
    let price_date = snapshot.region(&region).and_then(|region| region.price_date.clone());
    Captured { input, notes: Vec::new(), region: region.to_string(), price_date, running }
}

/// What the manifest of a NodePool says beside what it is planned by.
fn pool_facts(pool: &NodePoolManifest, classes: &[NodeClassManifest]) -> (PoolName, PoolRecord) {
    let class = classes.iter().find(|class| class.name == pool.class.name);
    let record = PoolRecord {
        pool: NodePool::default(),
        disruption: pool.disruption.clone(),
        revision: Text::default(),
        meta: PoolMeta { managed: pool.managed, ..PoolMeta::default() },
        drift: drift_facts(pool, class),
    };
    (pool.name.clone(), record)
}

/// The part of an EC2NodeClass that drift is found by.
fn class_status(class: &NodeClassManifest) -> ClassRecord {
    ClassRecord { name: class.name.clone(), status: Arc::new(class.status.clone()), ..ClassRecord::default() }
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

/// The objects of the input as one state, and what is derived from pods and their volumes beside it.
fn populate<'p>(
    cluster: &Cluster,
    (pools, classes, claims): (Vec<PoolRecord>, Vec<ClassRecord>, &[NodeClaimManifest]),
    (options, defaults, external): (&Options, SpreadDefaults<'_>, &ExternalPools),
    prices: impl FnOnce() -> NodePrices<'p>,
    (problems, notes): (&Problems, &mut Notes),
) -> (PlanningInput, RunningCluster) {
    let owners = Owners::new(&cluster.workloads);
    let volumes = Volumes::new(cluster, records::hosts(cluster));
    let mut reader = PodReader::new(cluster, &owners, &volumes, &defaults);
    let state = {
        let mut snapshot = records::objects(cluster, claims, &pools, &volumes);
        snapshot.pods = cluster.pods.iter().map(|pod| reader.pod(pod, notes)).collect();
        snapshot.daemons = cluster.daemons.iter().map(|daemon| reader.daemon(daemon)).collect();
        (snapshot.pools, snapshot.classes) = (pools, classes);
        let mut state = ClusterState::default();
        state.set_schedulers(options.schedulers.clone());
        state.apply(Observation::Snapshot(Box::new(snapshot)), options.now);
        state.mark_drained_claims();
        state
    };
    note_nodes(&state, notes);
    let mut input = state.planning_input(&policy(options), options.now);
    for node in &mut input.nodes {
        external.clear_pool(node);
    }
    let not_launched = claims.iter().filter(|claim| claim.conditions.failure("Launched").is_some());
    let not_launched = not_launched.map(|claim| claim.name.clone()).collect();
    let running_reader = |notes| RunningReader { cluster, not_launched, state: &state, prices: prices(), notes };
    let mut running = match (options.disrupt, options.repack) {
        (true, _) => running_reader(&mut *notes).for_disruption(&mut input),
        (false, true) => running_reader(&mut *notes).for_repacking(&mut input),
        (false, false) => RunningCluster::default(),
    };
    let mut budgeted_pods = BudgetedPods::new(&cluster.budgets);
    let replaces_nodes = options.repack || options.disrupt;
    let mut survey = PodSurvey {
        cluster,
        state: &state,
        owners: &owners,
        schedulers: &options.schedulers,
        now: options.now,
        replaces_nodes,
        notes,
    };
    let present = survey.count(&mut budgeted_pods);
    let (tables, pods) = (Tables::take_from(&mut input), std::mem::take(&mut input.pods));
    let budgeted = &mut budgeted_pods;
    let schedulers = &options.schedulers;
    let replicas = Replicas { reader: &mut reader, schedulers, budgeted_pods: budgeted, tables, pods, notes, problems };
    let input = replicas.add_to(input, present);
    running::count_budgets(&mut running, &cluster.budgets, &budgeted_pods);
    budgeted_pods.blocked_drains(&cluster.budgets).into_iter().for_each(|line| notes.line(line));
    (input, running)
}

/// Notes what is not as it looks about the Nodes and NodeClaims of `state`.
fn note_nodes(state: &ClusterState, notes: &mut Notes) {
    for node in state.nodes() {
        if is_disrupted(&node.taints) && !state.is_node_terminating(&node.name) {
            let what = "nodes have the taint karpenter.sh/disrupted and record no drain of their NodeClaim: they stay, and no \
                        pod is placed on them (a server has the taint taken off)";
            notes.add(what, &node.name);
        }
        if node.allocatable.is_empty() {
            notes.add("nodes have no status.allocatable, so nothing fits on them", &node.name);
        }
    }
    for claim in state.claims().filter(|claim| state.node_of_claim(&claim.name).is_none()) {
        if claim.deleting {
            notes.add("NodeClaims without a Node are being deleted and provide no capacity", &claim.name);
        } else if claim.allocatable.is_empty() {
            notes.add(
                "NodeClaims have neither status.allocatable nor one known instance type, and provide no capacity",
                &claim.name,
            );
        }
    }
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
