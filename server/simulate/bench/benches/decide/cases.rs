//! The cases of the benchmark.

use std::path::{Path, PathBuf};

use anyhow::Result;
use model::input::PreferencePolicy;
use serde_json::{Value, json};

use crate::catalogue::{self, Bounds};
use crate::template::Rule;
use crate::workload::Workload;
use crate::{generate, trace};

/// Cases that differ in size alone, for fitting a growth exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Karpenter's mix of five constraints.
    Diverse,
    /// The same pods without constraints.
    Plain,
    /// Not part of a family.
    Single,
}

#[derive(Debug, Clone)]
pub struct Case {
    /// Name in the table, selected by `--only`.
    pub name: String,
    pub family: Family,
    /// Number of pods; for traces the maximum.
    pub pods: usize,
    /// Lower bound of the cost in dollars per hour that is known from elsewhere, for the cost table.
    pub known_bound: Option<f64>,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Diverse,
    DiverseOnEc2,
    Plain,
    Preferences(PreferencePolicy),
    Replicas,
    Shapes,
    Deployments(Rule),
    SpreadReplicas { size: (u32, u32), bounds: Bounds, constraints: &'static [(i64, &'static str, &'static str)] },
    ExistingCluster,
    Openb { file: PathBuf, pick: trace::TraceFilter, most_vcpu: Option<u32>, max_node_vcpu: Option<u32> },
    Mix(PathBuf),
    MixWithExclusionOnly(PathBuf),
    Suite { file: PathBuf, most_vcpu: Option<u32> },
}

impl Case {
    /// Origin of its pods and pools.
    pub fn workload(&self) -> Result<Workload> {
        Ok(match &self.source {
            Source::Diverse => generate::diverse(catalogue::generated(), self.pods),
            Source::DiverseOnEc2 => generate::diverse(catalogue::ec2(Bounds::MODEST), self.pods),
            Source::Plain => generate::plain(self.pods),
            Source::Preferences(policy) => generate::preferences(self.pods, *policy),
            Source::Replicas => generate::replicas(self.pods),
            Source::Shapes => generate::shapes(self.pods),
            Source::ExistingCluster => generate::existing_cluster(self.pods),
            Source::Deployments(rule) => generate::deployments(self.pods, *rule),
            Source::SpreadReplicas { size, bounds, constraints } => {
                generate::spread_replicas(self.pods, *size, *bounds, constraints.iter().map(spread).collect())
            }
            Source::Openb { file, pick, most_vcpu, max_node_vcpu } => {
                let mut workload = trace::alibaba_pods(file, *pick, *most_vcpu)?;
                workload.max_node_vcpu = *max_node_vcpu;
                workload
            }
            Source::Mix(file) => trace::karpenter_pods(file)?,
            Source::MixWithExclusionOnly(file) => trace::karpenter_pods_with_exclusion_only(file)?,
            Source::Suite { file, most_vcpu } => trace::karpenter_suite(file, *most_vcpu)?,
        })
    }
}

/// A constraint over the pods of one Deployment: `maxSkew`, topology key, `whenUnsatisfiable`.
fn spread((skew, key, when): &(i64, &str, &str)) -> Value {
    let own = json!({"matchLabels": {"app": "web"}});
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": own})
}

/// Sizes for fitting the growth exponent.
const SIZES: [usize; 5] = [1_000, 5_000, 10_000, 20_000, 100_000];

/// All cases; those of traces only with a folder of them.
pub fn all(data: Option<&Path>) -> Vec<Case> {
    let sized = |family, word: &str, source: Source| {
        SIZES.map(|pods| Case {
            name: format!("{word}-{pods}"),
            family,
            pods,
            known_bound: None,
            source: source.clone(),
        })
    };
    let single = |name: &str, pods, source| Case {
        name: name.to_owned(),
        family: Family::Single,
        pods,
        known_bound: None,
        source,
    };
    let mut cases = Vec::from(sized(Family::Diverse, "diverse", Source::Diverse));
    cases.extend(sized(Family::Plain, "plain", Source::Plain));
    cases.extend([
        single("preferences-respect", 4_000, Source::Preferences(PreferencePolicy::Respect)),
        single("preferences-ignore", 4_000, Source::Preferences(PreferencePolicy::Ignore)),
        single("diverse-ec2-1000", 1_000, Source::DiverseOnEc2),
        single("diverse-ec2-5000", 5_000, Source::DiverseOnEc2),
        single("replicas-ec2", 10_000, Source::Replicas),
        single("shapes-ec2", 10_000, Source::Shapes),
        single("standing-ec2", 10, Source::ExistingCluster),
        single("deployments", 9_990, Source::Deployments(Rule::Plain)),
        single("deployments-zones", 9_990, Source::Deployments(Rule::ZoneSpread)),
    ]);
    let replicas = |name, pods, size, bounds, constraints| {
        single(name, pods, Source::SpreadReplicas { size, bounds, constraints })
    };
    cases.extend([
        replicas("small-replicas", 10_000, (500, 512), Bounds::AMD64, &[]),
        replicas("host-spread", 50, (1_000, 2_048), Bounds::GETTING_STARTED, &HOSTS_BY_TWO),
        replicas("soft-spread", 30, (500, 512), Bounds::AMD64, &SOFT_ZONES_AND_HOSTS),
    ]);
    cases.extend(data.into_iter().flat_map(traces));
    cases
}

/// Rows of recorded workloads whose bound is known: pods, USD per hour (column generation with an exact
/// integer knapsack, zone rules left out).
const KNOWN_BOUNDS: [(&str, f64); 13] = [
    ("openb-cpu-default", 785.65),
    ("openb-cpu-le64", 873.65),
    ("openb-1k-le64", 344.32),
    ("openb-5k-le64", 2_036.29),
    ("openb-6th-1k-le64", 484.05),
    ("openb-1k-gpu", 776.50),
    ("openb-2nd-1k-gpu", 777.05),
    ("basic-default", 123.12),
    ("basic-le64", 124.23),
    ("wide-le64", 121.35),
    ("exclusion-1k-le64", 27.01),
    ("exclusion-5k-le64", 134.68),
    ("openb-5k-gpu", 4_257.22),
];

const HOSTS_BY_TWO: [(i64, &str, &str); 1] = [(2, "kubernetes.io/hostname", "DoNotSchedule")];
const SOFT_ZONES_AND_HOSTS: [(i64, &str, &str); 2] =
    [(1, "topology.kubernetes.io/zone", "ScheduleAnyway"), (1, "kubernetes.io/hostname", "ScheduleAnyway")];

fn traces(folder: &Path) -> Vec<Case> {
    use trace::TraceFilter::{CpuOnly, WithGpu, WithoutGpu};
    let case = |name: &str, pods, source| {
        let known = KNOWN_BOUNDS.iter().find(|(row, _)| *row == name).map(|(_, bound)| *bound);
        Case { name: name.to_owned(), family: Family::Single, pods, known_bound: known, source }
    };
    let alibaba_pods = |name: &str, pods, pick, most_vcpu| {
        let file = folder.join("openb_pods_default.csv.gz");
        case(name, pods, Source::Openb { file, pick, most_vcpu, max_node_vcpu: None })
    };
    let mix = |pods: usize| folder.join(format!("karp_diverse_{pods}.csv.gz"));
    let suite =
        |name: &str, file: &str, most_vcpu| case(name, 1_000, Source::Suite { file: folder.join(file), most_vcpu });
    let file = folder.join("openb_pods_default.csv.gz");
    let capped = Source::Openb { file, pick: CpuOnly, most_vcpu: None, max_node_vcpu: Some(64) };
    let mut cases = vec![
        alibaba_pods("openb-cpu-default", 1_088, CpuOnly, None),
        case("openb-cpu-max-node-64", 1_088, capped),
        alibaba_pods("openb-cpu-le64", 1_088, CpuOnly, Some(64)),
        alibaba_pods("openb-1k-le64", 996, WithoutGpu(0, 1_000), Some(64)),
        alibaba_pods("openb-5k-le64", 4_966, WithoutGpu(0, 5_000), Some(64)),
        alibaba_pods("openb-2nd-1k-le64", 1_000, WithoutGpu(1_000, 2_000), Some(64)),
        alibaba_pods("openb-6th-1k-le64", 1_000, WithoutGpu(5_000, 6_000), Some(64)),
        alibaba_pods("openb-1k-gpu", 1_000, WithGpu(0, 1_000), None),
        alibaba_pods("openb-2nd-1k-gpu", 1_000, WithGpu(1_000, 2_000), None),
        alibaba_pods("openb-5k-gpu", 5_000, WithGpu(0, 5_000), None),
        suite("basic-default", "karp_suite_basic.csv", None),
        suite("basic-le64", "karp_suite_basic.csv", Some(64)),
        suite("wide-le64", "karp_suite_wide.csv", Some(64)),
        case("exclusion-1k-le64", 1_000, Source::MixWithExclusionOnly(mix(1_000))),
        case("exclusion-5k-le64", 5_000, Source::MixWithExclusionOnly(mix(5_000))),
    ];
    cases.extend(
        [1_000, 5_000, 10_000].map(|pods| case(&format!("trace-diverse-{pods}"), pods, Source::Mix(mix(pods)))),
    );
    cases
}
