//! Classes of nodes that only their names distinguish: the nodes of one launch, mostly.

use std::rc::Rc;

use model::labels::HOSTNAME;
use model::requirements::Requirement;
use model::{Node, NodeSelectorTerm, NodeStage, PodShape, Taint, Text, VolumeAlternatives};
use rustc_hash::FxHashMap;

/// What rules about one node read, apart from its name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key<'a> {
    labels: Vec<(&'a Text, &'a Text)>,
    taints: &'a [Taint],
    unschedulable: bool,
    is_deleting: bool,
}

/// The nodes of an input, by class.
#[derive(Debug)]
pub(crate) struct NodeClasses {
    of_node: Vec<u32>,
    /// One node of each class, by index.
    examples: Vec<usize>,
    /// The flags of all nodes, by those of the classes: most rules say the same of every node.
    flags: FxHashMap<Vec<bool>, Rc<[bool]>>,
}

impl NodeClasses {
    pub(crate) fn of(nodes: &[Node]) -> Self {
        let mut known: FxHashMap<Key<'_>, u32> = FxHashMap::default();
        let (of_node, examples) = (Vec::with_capacity(nodes.len()), Vec::new());
        let mut classes = Self { of_node, examples, flags: FxHashMap::default() };
        for (at, node) in nodes.iter().enumerate() {
            let key = Key {
                labels: node.labels.iter().filter(|(key, _)| key.as_ref() != HOSTNAME).collect(),
                taints: &node.taints,
                unschedulable: node.unschedulable,
                is_deleting: node.stage == NodeStage::Deleting,
            };
            let next = u32::try_from(classes.examples.len()).unwrap_or(u32::MAX);
            let class = *known.entry(key).or_insert(next);
            if class == next {
                classes.examples.push(at);
            }
            classes.of_node.push(class);
        }
        classes
    }

    /// The value of every node. `value` is computed once for each class unless it depends on the name of
    /// a node.
    pub(crate) fn map<T: Copy>(&self, nodes: &[Node], depends_on_name: bool, value: impl Fn(&Node) -> T) -> Vec<T> {
        if depends_on_name {
            return nodes.iter().map(value).collect();
        }
        let by_class: Vec<T> = self.examples.iter().map(|node| value(&nodes[*node])).collect();
        self.of_node.iter().map(|class| by_class[*class as usize]).collect()
    }

    /// As [`NodeClasses::map`]; equal flags are kept once.
    pub(crate) fn flags(&mut self, nodes: &[Node], depends_on_name: bool, flag: impl Fn(&Node) -> bool) -> Rc<[bool]> {
        if depends_on_name {
            return nodes.iter().map(flag).collect();
        }
        let by_class: Vec<bool> = self.examples.iter().map(|node| flag(&nodes[*node])).collect();
        let Self { of_node, flags, .. } = self;
        let of_nodes =
            |by_class: &Vec<bool>| of_node.iter().map(|class| by_class[*class as usize]).collect::<Rc<[bool]>>();
        flags.entry(by_class).or_insert_with_key(of_nodes).clone()
    }

    /// As [`NodeClasses::flags`]; `None` if all nodes have the flag.
    pub(crate) fn flags_unless_all(
        &mut self,
        nodes: &[Node],
        depends_on_name: bool,
        flag: impl Fn(&Node) -> bool,
    ) -> Option<Rc<[bool]>> {
        if !depends_on_name && self.examples.iter().all(|node| flag(&nodes[*node])) {
            return None;
        }
        Some(self.flags(nodes, depends_on_name, flag)).filter(|flags| flags.contains(&false))
    }

    /// Number of steps that [`NodeClasses::map`] takes.
    pub(crate) fn steps_of_map(&self, depends_on_name: bool) -> usize {
        // Sixteen copies of a value take as long as one step.
        if depends_on_name { self.of_node.len() } else { self.examples.len() + self.of_node.len() / 16 }
    }
}

/// Whether rules of a pod about one node mention the name of the node.
pub(crate) fn mentions_name(shape: &PodShape, volumes: Option<&VolumeAlternatives>) -> bool {
    let is_hostname = |requirement: &Requirement| requirement.key().as_ref() == HOSTNAME;
    let term = |term: &NodeSelectorTerm| !term.names.is_empty() || term.expressions.iter().any(is_hostname);
    shape.node_selector.iter().any(|(key, _)| key.as_ref() == HOSTNAME)
        || shape.node_affinity.iter().any(term)
        || shape.preferred_node_affinity.iter().any(|weighted| term(&weighted.term))
        || volumes.is_some_and(|volumes| volumes.any_of.iter().any(|all| all.iter().any(is_hostname)))
}
