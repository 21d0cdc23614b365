//! Differences between a plan and an expectation.

use std::collections::{BTreeMap, BTreeSet};

use crate::expectation::{Expectation, Node, Reason};
use crate::facts::{Facts, NodeFact, Outcome};

/// One line per difference: `-` is expected and missing, `+` is not expected.
pub fn differences(expected: &Expectation, outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Planned(_) if !expected.refused.is_empty() => vec!["- the input is refused".to_owned()],
        Outcome::Planned(facts) => of_plan(expected, facts),
        Outcome::Faulty(_) => vec!["+ the plan fails its own check".to_owned()],
        Outcome::Refused(_) if expected.refused.is_empty() => vec!["+ the input is refused".to_owned()],
        Outcome::Refused(messages) => {
            let missing = expected.refused.iter().filter(|parts| !messages.iter().any(|m| has(m, parts)));
            missing.map(|parts| format!("- refused {}", parts.join("; "))).collect()
        }
    }
}

fn of_plan(expected: &Expectation, facts: &Facts) -> Vec<String> {
    let mut found = nodes(&expected.nodes, &facts.nodes, "node");
    found.extend(nodes(&expected.statics, &facts.statics, "static"));
    found.extend(placed(expected, facts));
    found.extend(unschedulable(&expected.unschedulable, facts));
    found.extend(texts(expected, facts));
    if facts.cost != expected.cost {
        found.push(format!("- cost {}\n+ cost {}", expected.cost, facts.cost));
    }
    if let Some(bound) = expected.bound.filter(|bound| *bound != facts.bound) {
        found.push(format!("- bound {bound}\n+ bound {}", facts.bound));
    }
    if facts.bound > facts.cost {
        found.push(format!("+ bound {} above the cost {}", facts.bound, facts.cost));
    }
    found
}

fn has(text: &str, parts: &[String]) -> bool {
    parts.iter().all(|part| text.contains(part.as_str()))
}

/// Zones by variable (`$x`).
type Bindings = BTreeMap<String, String>;

fn nodes(expected: &[Node], planned: &[NodeFact], word: &str) -> Vec<String> {
    if expected.len() == planned.len() && assign(expected, &mut (0..planned.len()).collect(), planned, &Bindings::new())
    {
        return Vec::new();
    }
    let mut left: Vec<usize> = (0..planned.len()).collect();
    let mut lines = Vec::new();
    for node in expected {
        match left.iter().position(|at| agrees(node, &planned[*at], &Bindings::new()).is_some()) {
            Some(place) => drop(left.remove(place)),
            None => lines.push(format!("- {}", node.line)),
        }
    }
    lines.extend(left.iter().map(|at| format!("+ {word} {}", planned[*at])));
    if lines.is_empty() {
        lines.push(format!("- zones as the {word} lines have them: equal names equal, different names different"));
    }
    lines
}

/// Whether every expected machine can be assigned to a different machine of those `left`.
fn assign(expected: &[Node], left: &mut Vec<usize>, planned: &[NodeFact], bound: &Bindings) -> bool {
    let Some((first, rest)) = expected.split_first() else { return left.is_empty() };
    for place in 0..left.len() {
        if let Some(bindings) = agrees(first, &planned[left[place]], bound) {
            let at = left.remove(place);
            if assign(rest, left, planned, &bindings) {
                return true;
            }
            left.insert(place, at);
        }
    }
    false
}

fn agrees(node: &Node, fact: &NodeFact, bound: &Bindings) -> Option<Bindings> {
    let same = node.pool == fact.pool
        && node.capacity == fact.capacity
        && fact.types.first() == Some(&node.kind)
        && node.price == fact.price
        && node.credits == fact.credits
        && node.zones.as_ref().is_none_or(|zones| *zones == fact.zones)
        && node.types.as_ref().is_none_or(|types| *types == fact.types)
        && node.labels.iter().all(|(key, value)| fact.labels.get(key) == Some(value))
        && node.pods.are(&fact.pods);
    if same { bind(node, fact, bound) } else { None }
}

fn bind(node: &Node, fact: &NodeFact, bound: &Bindings) -> Option<Bindings> {
    let mut bindings = bound.clone();
    let (Some(zone), [only]) = (&node.zone, fact.zones.as_slice()) else {
        return node.zone.is_none().then_some(bindings);
    };
    if !zone.starts_with('$') {
        return (zone == only).then_some(bindings);
    }
    let other = bindings.iter().any(|(name, known)| name != zone && known == only);
    let known = bindings.insert(zone.clone(), only.clone());
    (!other && known.is_none_or(|known| known == *only)).then_some(bindings)
}

fn placed(expected: &Expectation, facts: &Facts) -> Vec<String> {
    let mut left: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (pod, node) in &facts.placed {
        left.entry(node).or_default().push(pod.clone());
    }
    let mut lines = Vec::new();
    for (pods, node) in &expected.placed {
        if left.get_mut(node.as_str()).and_then(|there| pods.take(there)).is_none() {
            lines.push(format!("- placed {pods:?} -> {node}"));
        }
    }
    lines.extend(left.iter().flat_map(|(node, pods)| pods.iter().map(move |pod| format!("+ placed {pod} -> {node}"))));
    lines
}

fn unschedulable(expected: &[Reason], facts: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    let mut matched: BTreeSet<(String, &str, &str)> = BTreeSet::new();
    for reason in expected {
        let gives = |pod: &String| {
            let same = facts.unplaced[pod].iter().filter(|r| r.pool == reason.pool && r.code == reason.code);
            same.clone().any(|r| has(&r.message, &reason.parts))
        };
        let mut candidates: Vec<String> = facts.unplaced.keys().filter(|pod| gives(pod)).cloned().collect();
        candidates.retain(|pod| !matched.contains(&(pod.clone(), reason.pool.as_str(), reason.code.as_str())));
        match reason.pods.take(&mut candidates) {
            Some(pods) => matched.extend(pods.into_iter().map(|pod| (pod, reason.pool.as_str(), reason.code.as_str()))),
            None => lines.push(format!("- {}", reason.line)),
        }
    }
    for (pod, reasons) in &facts.unplaced {
        if reasons.is_empty() {
            lines.push(format!("+ unschedulable {pod} without a reason"));
        }
        let surplus = reasons.iter().filter(|r| !matched.contains(&(pod.clone(), r.pool.as_str(), r.code)));
        lines.extend(surplus.map(|r| format!("+ unschedulable {pod} {} {}: {}", r.pool, r.code, r.message)));
    }
    lines
}

fn texts(expected: &Expectation, facts: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    for (pods, parts) in &expected.fits_if {
        let matches = |pod: &String| facts.fits_if[pod].iter().any(|text| has(text, parts));
        let mut candidates: Vec<String> = facts.fits_if.keys().filter(|pod| matches(pod)).cloned().collect();
        if pods.take(&mut candidates).is_none() {
            lines.push(format!("- fits-if {pods:?}: {}", parts.join("; ")));
        }
    }
    let noted = |parts: &&Vec<String>| facts.notes.iter().any(|note| has(note, parts));
    lines.extend(expected.notes.iter().filter(|p| !noted(p)).map(|p| format!("- note {}", p.join("; "))));
    lines.extend(expected.no_notes.iter().filter(noted).map(|p| format!("+ note {}", p.join("; "))));
    lines
}
