//! The hash of a NodePool's template, which a NodeClaim carries from its creation.

use model::{Labels, Millis, Taint, Text};

use crate::fnv::Fnv1a;

/// Version of [`NodePoolTemplate::hash`]; another one than Karpenter's, so that neither judges
/// NodeClaims by the hash of the other. A change of the function changes it.
pub const HASH_VERSION: &str = "fleetwright-1";

/// What the hash covers: `spec.template` of a NodePool, without requirements. Limits, weight,
/// disruption settings and replicas are no part of it (Karpenter: static drift).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePoolTemplate {
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations`.
    pub annotations: Labels,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// `spec.nodeClassRef`: group, kind and name.
    pub node_class: [Text; 3],
    /// `spec.terminationGracePeriod`.
    pub termination_grace_period: Option<Millis>,
    /// `spec.expireAfter`; `None` is `Never`.
    pub expire_after: Option<Millis>,
}

impl NodePoolTemplate {
    /// The hash, as 16 hexadecimal digits. The order of taints does not matter, and an absent list
    /// equals an empty one.
    #[must_use]
    pub fn hash(&self) -> Text {
        // Every field is named, so that an additional one does not compile until it is covered.
        let Self { labels, annotations, taints, startup_taints, node_class, termination_grace_period, expire_after } =
            self;
        let mut hash = Fnv1a::default();
        for map in [labels, annotations] {
            hash.number(map.len());
            map.iter().for_each(|(key, value)| hash.texts([key, value]));
        }
        for list in [taints, startup_taints] {
            let mut sorted: Vec<&Taint> = list.iter().collect();
            sorted.sort();
            sorted.dedup();
            hash.number(sorted.len());
            sorted.iter().for_each(|taint| hash.texts([&taint.key, &taint.value, taint.effect.as_str()]));
        }
        node_class.iter().for_each(|part| hash.texts([part]));
        for duration in [termination_grace_period, expire_after] {
            hash.texts([duration.map_or_else(String::new, |duration| duration.get().to_string()).as_str()]);
        }
        hash.hex()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Effect;

    fn taint(key: &str) -> Taint {
        Taint { key: key.into(), value: "v".into(), effect: Effect::NoSchedule }
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
    }

    fn template() -> NodePoolTemplate {
        NodePoolTemplate {
            labels: labels(&[("team", "a"), ("tier", "b")]),
            annotations: labels(&[("note", "c")]),
            taints: vec![taint("x"), taint("y")],
            startup_taints: vec![taint("z")],
            node_class: ["karpenter.k8s.aws", "EC2NodeClass", "default"].map(Text::from),
            termination_grace_period: Some(Millis::from_secs(30)),
            expire_after: Some(Millis::from_hours(720)),
        }
    }

    #[test]
    fn the_hash_of_a_release_is_the_hash_of_every_other() {
        // FNV-1a by the published constants, over five empty fields: each of two maps, two lists, three texts
        // and two durations writes a length of 0, eight zero bytes. That is 72 zero bytes; XOR with zero changes
        // nothing, so the hash is the offset basis times the prime to the power of 72, modulo 2^64.
        let mut expected = 0xcbf2_9ce4_8422_2325_u64;
        (0..72).for_each(|_| expected = expected.wrapping_mul(0x0100_0000_01b3));
        assert_eq!(NodePoolTemplate::default().hash().as_ref(), format!("{expected:016x}"));
    }

    #[test]
    fn the_order_of_taints_does_not_matter() {
        let turned = NodePoolTemplate { taints: vec![taint("y"), taint("x")], ..template() };
        assert_eq!(turned.hash(), template().hash());
    }

    #[test]
    fn every_field_changes_the_hash() {
        let base = template();
        let changed = [
            NodePoolTemplate { labels: labels(&[("team", "a")]), ..base.clone() },
            NodePoolTemplate { annotations: labels(&[("note", "d")]), ..base.clone() },
            NodePoolTemplate { taints: vec![taint("x")], ..base.clone() },
            NodePoolTemplate { startup_taints: Vec::new(), ..base.clone() },
            NodePoolTemplate {
                node_class: ["karpenter.k8s.aws", "EC2NodeClass", "other"].map(Text::from),
                ..base.clone()
            },
            NodePoolTemplate { termination_grace_period: None, ..base.clone() },
            NodePoolTemplate { expire_after: None, ..base.clone() },
        ];
        for one in changed {
            assert_ne!(one.hash(), base.hash(), "{one:?}");
        }
    }

    #[test]
    fn parts_that_read_alike_when_joined_have_different_hashes() {
        let of = |pairs| NodePoolTemplate { labels: labels(pairs), ..NodePoolTemplate::default() }.hash();
        assert_ne!(of(&[("ab", "c")]), of(&[("a", "bc")]));
        let taints = NodePoolTemplate { taints: vec![taint("x")], ..NodePoolTemplate::default() };
        let startup = NodePoolTemplate { startup_taints: vec![taint("x")], ..NodePoolTemplate::default() };
        assert_ne!(taints.hash(), startup.hash());
    }
}
