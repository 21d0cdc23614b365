//! Pods made up by rule, from a seed of our own.

use engine::input::PreferencePolicy;
use serde_json::json;

use crate::recipe::{Recipe, Rule};
use crate::shop::{self, Bounds, Shop};
use crate::standing;
use crate::workload::Workload;

/// Requests of Karpenter's scheduling benchmark, in milli-cores.
const CPU: [u32; 5] = [100, 250, 500, 1000, 1500];
/// Requests of Karpenter's scheduling benchmark, in MiB.
const MEMORY: [u32; 6] = [100, 256, 512, 1024, 2048, 4096];
/// Values of the benchmark's labels.
const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const SEED: u64 = 42;

/// Karpenter's diverse pods: five equal groups of plain pods, spread over zones and hosts, zone affinity and host
/// anti-affinity; what does not divide by five is plain.
pub fn diverse(shop: Shop, count: usize) -> Workload {
    let mut dice = SeededRng(SEED);
    let rules = [Rule::ZoneSpread, Rule::HostSpread, Rule::ZoneAffinity, Rule::HostExclusion];
    let group = count / 5;
    let recipes = (0..count).map(|at| {
        let rule = at.checked_div(group).and_then(|nth| rules.get(nth)).copied().unwrap_or(Rule::Plain);
        recipe(&mut dice, rule)
    });
    Workload::of_pods(shop, recipes)
}

/// The plain pods of the same benchmark.
pub fn plain(count: usize) -> Workload {
    let mut dice = SeededRng(SEED);
    Workload::of_pods(shop::generated(), (0..count).map(|_| recipe(&mut dice, Rule::Plain)))
}

/// Equal pods that would like a zone, and would like to be alone.
pub fn preferences(count: usize, policy: PreferencePolicy) -> Workload {
    let one = recipe(&mut SeededRng(SEED), Rule::Preferences);
    let mut workload = Workload::of_pods(shop::generated(), std::iter::repeat_n(one, count));
    workload.preferences = policy;
    workload
}

/// Replicas of one Deployment, for which all of EC2 is on offer.
pub fn replicas(count: usize) -> Workload {
    let mut shop = shop::ec2(Bounds::ANY);
    let template = Recipe::plain(1500, 3000).manifest();
    let labels = json!({"app": "web"});
    shop.objects.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": count, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }));
    Workload::of_pods(shop, std::iter::empty())
}

/// Pods of 200 sizes, for which all of EC2 is on offer: 20 amounts of CPU times 10 of memory.
pub fn shapes(count: usize) -> Workload {
    let size = |at: usize| {
        let nth = u32::try_from(at % 200).unwrap_or(0);
        Recipe::plain(100 + 150 * (nth % 20), 200 + 700 * (nth / 20))
    };
    Workload::of_pods(shop::ec2(Bounds::ANY), (0..count).map(size))
}

/// A few replicas for a cluster that stands: 100 nodes of 8 vCPU with 20 pods each and no room for another, a DaemonSet
/// on all of them, and EC2's on-demand offerings for sale.
pub fn standing(count: usize) -> Workload {
    let mut shop = shop::ec2(Bounds::LINUX);
    shop.objects.push(standing::daemon());
    for node in 0..100 {
        shop.objects.push(standing::node(node));
        shop.objects.extend((0..20).map(|pod| standing::pod(node, pod)));
    }
    Workload::of_pods(shop, std::iter::repeat_n(Recipe::plain(1000, 1024), count))
}

fn recipe(dice: &mut SeededRng, rule: Rule) -> Recipe {
    let (cpu, memory) = (dice.pick(&CPU), dice.pick(&MEMORY));
    let lettered = |dice: &mut SeededRng, key: &str| Some((key.to_owned(), dice.pick(&LETTERS).to_owned()));
    let (label, selects) = match rule {
        Rule::Plain => (lettered(dice, "my-label"), None),
        Rule::ZoneSpread | Rule::HostSpread => (lettered(dice, "my-label"), lettered(dice, "my-label")),
        Rule::ZoneAffinity => {
            let own = lettered(dice, "my-affinity");
            (own.clone(), own)
        }
        Rule::HostExclusion | Rule::Preferences => {
            let own = Some(("app".to_owned(), "nginx".to_owned()));
            (own.clone(), own)
        }
    };
    Recipe { cpu, memory, rule, label, selects }
}

/// SplitMix64.
struct SeededRng(u64);

impl SeededRng {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        from[(mixed % from.len() as u64) as usize]
    }
}
