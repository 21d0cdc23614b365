//! What is measured.

use std::path::{Path, PathBuf};

use anyhow::Result;
use engine::input::PreferencePolicy;

use crate::shop::Bounds;
use crate::workload::Workload;
use crate::{generate, shop, trace};

/// Cases that differ in size alone, through which a growth exponent is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Karpenter's mix of five constraints.
    Diverse,
    /// The same pods without constraints.
    Plain,
    /// Stands alone.
    Single,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// What it is fitted with.
    pub family: Family,
    /// How many pods it has; for traces at most that many.
    pub pods: usize,
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
    Standing,
    Openb { file: PathBuf, pick: trace::Pick, most_vcpu: Option<u32> },
    Mix(PathBuf),
}

impl Case {
    /// Its pods and pools.
    pub fn workload(&self) -> Result<Workload> {
        Ok(match &self.source {
            Source::Diverse => generate::diverse(shop::generated(), self.pods),
            Source::DiverseOnEc2 => generate::diverse(shop::ec2(Bounds::MODEST), self.pods),
            Source::Plain => generate::plain(self.pods),
            Source::Preferences(policy) => generate::preferences(self.pods, *policy),
            Source::Replicas => generate::replicas(self.pods),
            Source::Shapes => generate::shapes(self.pods),
            Source::Standing => generate::standing(self.pods),
            Source::Openb { file, pick, most_vcpu } => trace::openb(file, *pick, *most_vcpu)?,
            Source::Mix(file) => trace::mix(file)?,
        })
    }
}

/// Sizes through which the growth exponent is fitted.
const SIZES: [usize; 5] = [1_000, 5_000, 10_000, 20_000, 100_000];

/// All cases; those of traces when there is a folder of them.
pub fn all(data: Option<&Path>) -> Vec<Case> {
    let sized = |family, word: &str, source: Source| {
        SIZES.map(|pods| Case { name: format!("{word}-{pods}"), family, pods, source: source.clone() })
    };
    let single = |name: &str, pods, source| Case { name: name.to_owned(), family: Family::Single, pods, source };
    let mut cases = Vec::from(sized(Family::Diverse, "diverse", Source::Diverse));
    cases.extend(sized(Family::Plain, "plain", Source::Plain));
    cases.extend([
        single("preferences-respect", 4_000, Source::Preferences(PreferencePolicy::Respect)),
        single("preferences-ignore", 4_000, Source::Preferences(PreferencePolicy::Ignore)),
        single("diverse-ec2-1000", 1_000, Source::DiverseOnEc2),
        single("diverse-ec2-5000", 5_000, Source::DiverseOnEc2),
        single("replicas-ec2", 10_000, Source::Replicas),
        single("shapes-ec2", 10_000, Source::Shapes),
        single("standing-ec2", 10, Source::Standing),
    ]);
    cases.extend(data.into_iter().flat_map(traces));
    cases
}

fn traces(folder: &Path) -> Vec<Case> {
    let openb = |name: &str, pods, pick, most_vcpu| Case {
        name: name.to_owned(),
        family: Family::Single,
        pods,
        source: Source::Openb { file: folder.join("openb_pods_default.csv.gz"), pick, most_vcpu },
    };
    let mix = |pods: usize| Case {
        name: format!("trace-diverse-{pods}"),
        family: Family::Single,
        pods,
        source: Source::Mix(folder.join(format!("karp_diverse_{pods}.csv.gz"))),
    };
    let mut cases = vec![
        openb("openb-cpu-default", 1_088, trace::Pick::CpuOnly, None),
        openb("openb-cpu-le64", 1_088, trace::Pick::CpuOnly, Some(64)),
        openb("openb-5k-le64", 4_966, trace::Pick::FirstWithoutGpu(5_000), Some(64)),
    ];
    cases.extend([1_000, 5_000, 10_000].map(mix));
    cases
}
