//! Labels that NodePools require, that no instance type has, and that are likely a known label misspelt. Such a
//! requirement is allowed: it defines the label on the nodes, and chooses no instance type.

use std::collections::BTreeSet;

use manifests::karpenter::well_known_labels;
use manifests::nearest_step;
use manifests::notes::Notes;
use model::{NodePool, Text};

/// Domains of Kubernetes itself. Labels of other domains are the user's own.
const DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// Names of known labels that are at least so long are recognised in longer and shorter words.
const LEAST_NAME: usize = 4;

/// Notes the requirements of `pools` on labels that are likely misspelt.
pub fn note_unknown_labels(pools: &[NodePool], notes: &mut Notes) {
    let known = well_known_labels();
    for pool in pools {
        let of_types: BTreeSet<&Text> =
            pool.catalogue.types.iter().flat_map(|kind| kind.labels.iter().map(|label| label.key())).collect();
        let keys = pool.requirements.iter().map(|requirement| requirement.key());
        for key in keys.filter(|key| !known.contains(key) && !of_types.contains(key)) {
            if let Some(meant) = meant(key, &known) {
                let what =
                    format!("the label {key} chooses no instance type, because none has it; did you mean {meant}?");
                notes.add(&what, &format!("NodePool/{}", pool.name));
            }
        }
    }
}

/// The known label that `key` of a domain of Kubernetes likely stands for: one with the same name, with a longer or
/// shorter one, or with a similar one.
fn meant<'k>(key: &str, known: &'k [Text]) -> Option<&'k Text> {
    let (domain, name) = key.split_once('/')?;
    if !DOMAINS.iter().any(|own| domain == *own || domain.strip_suffix(own).is_some_and(|left| left.ends_with('.'))) {
        return None;
    }
    let name_of = |label: &'k Text| label.split_once('/').map_or("", |(_, name)| name);
    let contains = |label: &&'k Text| {
        let other = name_of(label);
        let (short, long) = if other.len() < name.len() { (other, name) } else { (name, other) };
        short.len() >= LEAST_NAME && (long.starts_with(short) || long.ends_with(short))
    };
    let names: Vec<&str> = known.iter().map(name_of).collect();
    let similar = || nearest_step(name, &names);
    let same = |wanted: &str| known.iter().find(|label| name_of(label) == wanted);
    same(name).or_else(|| known.iter().find(contains)).or_else(|| same(similar()?))
}
