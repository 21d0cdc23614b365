//! Generated pods, from a fixed seed.

use model::input::PreferencePolicy;
use serde_json::{Value, json};

use crate::catalogue::{self, Bounds, PoolsAndCatalogue};
use crate::existing_cluster;
use crate::template::{PodTemplate, Rule};
use crate::workload::Workload;

/// Requests of Karpenter's scheduling benchmark, in milli-cores.
const CPU: [u32; 5] = [100, 250, 500, 1000, 1500];
/// Requests of Karpenter's scheduling benchmark, in MiB.
const MEMORY: [u32; 6] = [100, 256, 512, 1024, 2048, 4096];
const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const SEED: u64 = 42;

/// Karpenter's diverse pods: five equal groups of plain pods, spread over zones and hosts, zone
/// affinity and host anti-affinity; the remainder is plain.
pub fn diverse(setup: PoolsAndCatalogue, count: usize) -> Workload {
    let mut rng = SeededRng(SEED);
    let rules = [Rule::ZoneSpread, Rule::HostSpread, Rule::ZoneAffinity, Rule::HostExclusion];
    let group = count / 5;
    let templates = (0..count).map(|at| {
        let rule = at.checked_div(group).and_then(|nth| rules.get(nth)).copied().unwrap_or(Rule::Plain);
        template(&mut rng, rule)
    });
    Workload::of_pods(setup, templates)
}

/// The plain pods of the same benchmark.
pub fn plain(count: usize) -> Workload {
    let mut rng = SeededRng(SEED);
    Workload::of_pods(catalogue::generated(), (0..count).map(|_| template(&mut rng, Rule::Plain)))
}

/// Equal pods that prefer a zone, and prefer to be alone.
pub fn preferences(count: usize, policy: PreferencePolicy) -> Workload {
    let one = template(&mut SeededRng(SEED), Rule::Preferences);
    let mut workload = Workload::of_pods(catalogue::generated(), std::iter::repeat_n(one, count));
    workload.preferences = policy;
    workload
}

/// Pods of 30 Deployments, one for each size of the benchmark, plain or spread over zones.
pub fn deployments(count: usize, rule: Rule) -> Workload {
    let pod = |at: usize| {
        let own = Some(("app".to_owned(), format!("app-{}", at % 30)));
        let (cpu, memory) = (CPU[at % 5], MEMORY[at / 5 % 6]);
        PodTemplate { rule, label: own.clone(), selects: own, ..PodTemplate::plain(cpu, memory) }
    };
    Workload::of_pods(catalogue::ec2(Bounds::MODEST), (0..count).map(pod))
}

/// Replicas of one Deployment whose pods are spread by `constraints`, at the defaults of the command line.
pub fn spread_replicas(count: usize, (cpu, memory): (u32, u32), bounds: Bounds, constraints: Value) -> Workload {
    let mut setup = catalogue::ec2(bounds);
    let mut spec = PodTemplate::plain(cpu, memory).manifest()["spec"].take();
    spec["topologySpreadConstraints"] = constraints;
    setup.objects.push(deployment(count, &spec));
    let mut workload = Workload::of_pods(setup, std::iter::empty());
    workload.node_overhead = None;
    workload
}

/// Replicas of one Deployment, with all of EC2 on offer.
pub fn replicas(count: usize) -> Workload {
    let mut setup = catalogue::ec2(Bounds::ANY);
    let template = PodTemplate::plain(1500, 3000).manifest();
    setup.objects.push(deployment(count, &template["spec"]));
    Workload::of_pods(setup, std::iter::empty())
}

fn deployment(replicas: usize, spec: &Value) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

/// Pods of 200 sizes, with all of EC2 on offer: 20 amounts of CPU times 10 of memory.
pub fn shapes(count: usize) -> Workload {
    let size = |at: usize| {
        let nth = u32::try_from(at % 200).unwrap_or(0);
        PodTemplate::plain(100 + 150 * (nth % 20), 200 + 700 * (nth / 20))
    };
    Workload::of_pods(catalogue::ec2(Bounds::ANY), (0..count).map(size))
}

/// A few replicas for an existing cluster: 100 full nodes of 8 vCPU with 20 pods each, a DaemonSet
/// on all of them, and EC2's on-demand offerings.
pub fn existing_cluster(count: usize) -> Workload {
    let mut setup = catalogue::ec2(Bounds::LINUX);
    setup.objects.push(existing_cluster::daemon());
    for node in 0..100 {
        setup.objects.push(existing_cluster::node(node));
        setup.objects.extend((0..20).map(|pod| existing_cluster::pod(node, pod)));
    }
    Workload::of_pods(setup, std::iter::repeat_n(PodTemplate::plain(1000, 1024), count))
}

fn template(rng: &mut SeededRng, rule: Rule) -> PodTemplate {
    let (cpu, memory) = (rng.pick(&CPU), rng.pick(&MEMORY));
    let lettered = |rng: &mut SeededRng, key: &str| Some((key.to_owned(), rng.pick(&LETTERS).to_owned()));
    let (label, selects) = match rule {
        Rule::Plain => (lettered(rng, "my-label"), None),
        Rule::ZoneSpread | Rule::HostSpread | Rule::ZoneAndHostSpread => {
            (lettered(rng, "my-label"), lettered(rng, "my-label"))
        }
        Rule::ZoneAffinity => {
            let own = lettered(rng, "my-affinity");
            (own.clone(), own)
        }
        Rule::HostExclusion | Rule::ZoneSpreadAndHostExclusion | Rule::Preferences => {
            let own = Some(("app".to_owned(), "nginx".to_owned()));
            (own.clone(), own)
        }
    };
    PodTemplate { cpu, memory, gpu: 0, rule, label, selects }
}

/// The SplitMix64 generator (Steele, Lea, Flood 2014).
pub struct SeededRng(u64);

impl SeededRng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of `from`.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        from[(mixed % from.len() as u64) as usize]
    }
}
