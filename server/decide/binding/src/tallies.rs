//! Counts of pods by topology domain, kept up to date while pods are bound and nodes join.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::Node;
use model::labels::HOSTNAME;

/// The domain of a node without the label.
pub(crate) const NO_DOMAIN: u32 = u32::MAX;

/// Nodes are listed by domain for keys with so many: zones rather than hosts.
pub(crate) const MAX_FEW_DOMAINS: usize = 16;

/// Some domains of a key that has few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FewDomains {
    key: usize,
    domains: u16,
}

impl FewDomains {
    pub(crate) fn key(self) -> usize {
        self.key
    }

    pub(crate) fn contains(self, domain: usize) -> bool {
        self.domains >> domain & 1 == 1
    }
}

/// The domain of every node for each topology key.
#[derive(Debug, Default)]
pub(crate) struct Domains<'a> {
    keys: Vec<&'a str>,
    of_node: Vec<Vec<u32>>,
    count: Vec<usize>,
}

impl<'a> Domains<'a> {
    /// The number of `key`, whose domains are collected if it is new.
    pub(crate) fn key(&mut self, key: &'a str, nodes: &'a [Node]) -> usize {
        if let Some(known) = self.keys.iter().position(|known| *known == key) {
            return known;
        }
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut domain = |node: &'a Node| {
            let Some(value) = node.labels.get(key) else { return NO_DOMAIN };
            let next = u32::try_from(numbers.len()).unwrap_or(NO_DOMAIN);
            *numbers.entry(value).or_insert(next)
        };
        self.of_node.push(nodes.iter().map(&mut domain).collect());
        self.count.push(numbers.len());
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// The domain of `node` for the key with this number.
    pub(crate) fn of(&self, key: usize, node: usize) -> u32 {
        self.of_node[key][node]
    }

    /// Those domains of the key that `accepts` accepts; `None` if the key has more than [`MAX_FEW_DOMAINS`].
    pub(crate) fn few(&self, key: usize, accepts: impl Fn(u32) -> bool) -> Option<FewDomains> {
        let count = u32::try_from(self.count[key]).ok().filter(|count| *count as usize <= MAX_FEW_DOMAINS)?;
        let bit = |domain: u32| u16::from(accepts(domain)) << domain;
        Some(FewDomains { key, domains: (0..count).map(bit).sum() })
    }

    /// Whether every node is its own domain of the key with this number.
    pub(crate) fn is_by_host(&self, key: usize) -> bool {
        self.keys[key] == HOSTNAME
    }

    /// Number of domains of the key with this number.
    pub(crate) fn count(&self, key: usize) -> usize {
        self.count[key]
    }
}

/// Bound pods of some classes, by domain of one key.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) key: usize,
    /// Pods by domain.
    counts: Vec<i64>,
    total: i64,
    minimum: Minimum,
    /// The number of its [`CountedNodes`].
    nodes: usize,
}

/// Whether nodes that are drained count, which the taint of a drain decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainedNodes {
    Count,
    /// Taints are honoured, and the pods do not tolerate that of a drain.
    Excluded,
}

/// The nodes that count for some tallies.
#[derive(Debug)]
struct CountedNodes {
    key: usize,
    /// Whether each node counts; all do if `None`.
    counted: Option<Rc<[bool]>>,
    /// Whether a node that is drained counts.
    drained: DrainedNodes,
    /// Nodes that are there and count, by domain.
    there: Vec<u32>,
    /// The tallies by these nodes.
    tallies: Vec<usize>,
}

impl CountedNodes {
    /// The domain of `node` if it counts.
    fn domain(&self, domains: &Domains<'_>, node: usize) -> Option<u32> {
        let domain = domains.of(self.key, node);
        (domain != NO_DOMAIN && self.counted.as_ref().is_none_or(|counted| counted[node])).then_some(domain)
    }
}

impl Tally {
    /// Pods in `domain`; 0 for [`NO_DOMAIN`].
    pub(crate) fn count(&self, domain: u32) -> i64 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    /// Whether a node that is drained makes a domain.
    pub(crate) fn counts_drained_nodes(&self, tallies: &Tallies) -> bool {
        tallies.nodes[self.nodes].drained == DrainedNodes::Count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The global minimum of a spread constraint: the fewest pods in a domain that has a node, 0
    /// while there are fewer than `min_domains` of them.
    pub(crate) fn global_minimum(&self, min_domains: Option<i32>) -> i64 {
        let lacks_domains = |least| usize::try_from(least).is_ok_and(|least| self.minimum.domains < least);
        if min_domains.is_some_and(lacks_domains) { 0 } else { i64::try_from(self.minimum.pods).unwrap_or(i64::MAX) }
    }

    /// Counts a pod in `domain`, which has a node or not.
    fn add_pod(&mut self, domain: u32, has_node: bool) {
        let at = domain as usize;
        if has_node {
            self.minimum.add_pod(self.counts[at]);
        }
        self.counts[at] += 1;
        self.total += 1;
    }

    fn remove_pod(&mut self, domain: u32, has_node: bool) {
        let at = domain as usize;
        if has_node {
            self.minimum.remove_pod(self.counts[at]);
        }
        self.counts[at] -= 1;
        self.total -= 1;
    }
}

/// The fewest pods in a domain that has a node. By hostname there is a domain for each node, and the minimum is
/// read for every pod.
#[derive(Debug, Default)]
struct Minimum {
    /// Number of domains that have a node.
    domains: usize,
    /// Number of those, by pods in them.
    by_pods: Vec<usize>,
    /// The fewest pods; 0 without domains.
    pods: usize,
}

impl Minimum {
    fn add_domain(&mut self, pods: i64) {
        let pods = usize::try_from(pods).unwrap_or(0);
        self.pods = if self.domains == 0 { pods } else { self.pods.min(pods) };
        self.domains += 1;
        self.count(pods);
    }

    /// Counts one more pod in a domain with `pods` of them.
    fn add_pod(&mut self, pods: i64) {
        let pods = usize::try_from(pods).unwrap_or(0);
        self.by_pods[pods] -= 1;
        self.count(pods + 1);
        // If no other domain has the fewest pods, this one has them.
        if pods == self.pods && self.by_pods[pods] == 0 {
            self.pods += 1;
        }
    }

    /// Counts one pod less in a domain with `pods` of them.
    fn remove_pod(&mut self, pods: i64) {
        let pods = usize::try_from(pods).unwrap_or(0);
        self.by_pods[pods] -= 1;
        let fewer = pods.saturating_sub(1);
        self.count(fewer);
        self.pods = self.pods.min(fewer);
    }

    fn remove_domain(&mut self, pods: i64) {
        let pods = usize::try_from(pods).unwrap_or(0);
        self.by_pods[pods] -= 1;
        self.domains -= 1;
        if self.domains == 0 {
            self.pods = 0;
        } else if pods == self.pods {
            let with_domains = self.by_pods.iter().skip(pods).position(|domains| *domains > 0);
            self.pods += with_domains.unwrap_or(0);
        }
    }

    fn count(&mut self, pods: usize) {
        if self.by_pods.len() <= pods {
            self.by_pods.resize(pods + 1, 0);
        }
        self.by_pods[pods] += 1;
    }
}

type Definition = (Vec<u32>, usize);

/// All counts; equal ones are kept once.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    list: Vec<Tally>,
    nodes: Vec<CountedNodes>,
    /// By pods and nodes that count.
    known: BTreeMap<Definition, usize>,
    /// By topology key, the nodes that count for some tally.
    nodes_of_key: Vec<Vec<usize>>,
    of_class: Vec<Vec<usize>>,
}

impl Tallies {
    /// The number of the tally of the pods of `classes` by `key` on the nodes of `counted`.
    pub(crate) fn define(
        &mut self,
        domains: &Domains<'_>,
        classes: Vec<u32>,
        key: usize,
        (counted, drained): (Option<Rc<[bool]>>, DrainedNodes),
    ) -> usize {
        let nodes = self.nodes_that_count(domains, key, counted, drained);
        let definition = (classes, nodes);
        if let Some(known) = self.known.get(&definition) {
            return *known;
        }
        let number = self.list.len();
        for class in &definition.0 {
            let class = *class as usize;
            if self.of_class.len() <= class {
                self.of_class.resize_with(class + 1, Vec::new);
            }
            self.of_class[class].push(number);
        }
        let counts = vec![0; domains.count(key)];
        self.list.push(Tally { key, counts, total: 0, minimum: Minimum::default(), nodes });
        self.nodes[nodes].tallies.push(number);
        self.known.insert(definition, number);
        number
    }

    fn nodes_that_count(
        &mut self,
        domains: &Domains<'_>,
        key: usize,
        counted: Option<Rc<[bool]>>,
        drained: DrainedNodes,
    ) -> usize {
        if self.nodes_of_key.len() <= key {
            self.nodes_of_key.resize_with(key + 1, Vec::new);
        }
        let is_same = |nodes: &CountedNodes| nodes.counted == counted && nodes.drained == drained;
        let known = self.nodes_of_key[key].iter().find(|nodes| is_same(&self.nodes[**nodes]));
        if let Some(known) = known {
            return *known;
        }
        let there = vec![0; domains.count(key)];
        self.nodes.push(CountedNodes { key, counted, drained, there, tallies: Vec::new() });
        self.nodes_of_key[key].push(self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    pub(crate) fn get(&self, number: usize) -> &Tally {
        &self.list[number]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Counts a pod of `class` on `node`.
    pub(crate) fn add_pod(&mut self, domains: &Domains<'_>, class: u32, node: usize) {
        for number in self.of_class.get(class as usize).into_iter().flatten() {
            let tally = &mut self.list[*number];
            let nodes = &self.nodes[tally.nodes];
            if let Some(domain) = nodes.domain(domains, node) {
                tally.add_pod(domain, nodes.there[domain as usize] > 0);
            }
        }
    }

    /// Takes a pod of `class` on `node` out of the counts.
    pub(crate) fn remove_pod(&mut self, domains: &Domains<'_>, class: u32, node: usize) {
        for number in self.of_class.get(class as usize).into_iter().flatten() {
            let tally = &mut self.list[*number];
            let nodes = &self.nodes[tally.nodes];
            if let Some(domain) = nodes.domain(domains, node) {
                tally.remove_pod(domain, nodes.there[domain as usize] > 0);
            }
        }
    }

    /// Counts `node` as a member of its domains.
    pub(crate) fn add_node(&mut self, domains: &Domains<'_>, node: usize) {
        self.nodes.iter_mut().for_each(|nodes| join(&mut self.list, nodes, domains, node));
    }

    /// Counts `node`, which is drained, as a member of its domains.
    pub(crate) fn add_drained_node(&mut self, domains: &Domains<'_>, node: usize) {
        let counting = self.nodes.iter_mut().filter(|nodes| nodes.drained == DrainedNodes::Count);
        counting.for_each(|nodes| join(&mut self.list, nodes, domains, node));
    }

    /// Has `node` drained; its pods are to be removed before.
    pub(crate) fn drain_node(&mut self, domains: &Domains<'_>, node: usize) {
        let excluding = self.nodes.iter_mut().filter(|nodes| nodes.drained == DrainedNodes::Excluded);
        excluding.for_each(|nodes| leave(&mut self.list, nodes, domains, node));
    }

    /// Counts `node` again where its drain excluded it.
    pub(crate) fn undrain_node(&mut self, domains: &Domains<'_>, node: usize) {
        let excluding = self.nodes.iter_mut().filter(|nodes| nodes.drained == DrainedNodes::Excluded);
        excluding.for_each(|nodes| join(&mut self.list, nodes, domains, node));
    }
}

fn join(list: &mut [Tally], nodes: &mut CountedNodes, domains: &Domains<'_>, node: usize) {
    let Some(domain) = nodes.domain(domains, node) else { return };
    let at = domain as usize;
    nodes.there[at] += 1;
    if nodes.there[at] == 1 {
        for number in &nodes.tallies {
            let tally = &mut list[*number];
            tally.minimum.add_domain(tally.counts[at]);
        }
    }
}

fn leave(list: &mut [Tally], nodes: &mut CountedNodes, domains: &Domains<'_>, node: usize) {
    let Some(domain) = nodes.domain(domains, node) else { return };
    let at = domain as usize;
    nodes.there[at] -= 1;
    if nodes.there[at] == 0 {
        for number in &nodes.tallies {
            let tally = &mut list[*number];
            tally.minimum.remove_domain(tally.counts[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Labels, NodeName, NodeStage, Resources, Text};

    fn node(name: &str, zone: &str) -> Node {
        Node {
            name: NodeName::from(name),
            pool: None,
            labels: Labels::from([(Text::from("zone"), Text::from(zone))]),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Resources::new(),
            capacity: Resources::new(),
            stage: NodeStage::Initialized,
            pods: Vec::new(),
            attach_limits: Vec::new(),
            created: None,
        }
    }

    /// Two nodes in zone a, one in b, one in c, and the tally of class 0 by zone.
    fn by_zone(nodes: &[Node], drained: DrainedNodes) -> (Domains<'_>, Tallies, usize) {
        let (mut domains, mut tallies) = (Domains::default(), Tallies::default());
        let key = domains.key("zone", nodes);
        let tally = tallies.define(&domains, vec![0], key, (None, drained));
        (domains, tallies, tally)
    }

    fn nodes() -> [Node; 4] {
        [node("a1", "a"), node("a2", "a"), node("b", "b"), node("c", "c")]
    }

    #[test]
    fn the_minimum_is_that_of_the_domains_with_a_node() {
        let nodes = nodes();
        let (domains, mut tallies, tally) = by_zone(&nodes, DrainedNodes::Count);
        assert_eq!(tallies.get(tally).global_minimum(None), 0);
        tallies.add_node(&domains, 0);
        tallies.add_pod(&domains, 0, 0);
        tallies.add_pod(&domains, 0, 0);
        // 2, without a node, without a node.
        assert_eq!((tallies.get(tally).global_minimum(None), tallies.get(tally).global_minimum(Some(2))), (2, 0));
        tallies.add_node(&domains, 1);
        tallies.add_node(&domains, 2);
        // 2, 0, without a node.
        assert_eq!(tallies.get(tally).global_minimum(None), 0);
        tallies.add_pod(&domains, 0, 2);
        // 2, 1, without a node.
        assert_eq!((tallies.get(tally).global_minimum(Some(2)), tallies.get(tally).global_minimum(Some(3))), (1, 0));
        tallies.add_pod(&domains, 0, 2);
        tallies.add_pod(&domains, 0, 2);
        // 2, 3, without a node.
        assert_eq!(tallies.get(tally).global_minimum(None), 2);
        tallies.add_node(&domains, 3);
        assert_eq!(tallies.get(tally).global_minimum(Some(3)), 0);
    }

    #[test]
    fn the_minimum_follows_pods_and_nodes_that_taints_exclude() {
        let nodes = nodes();
        let (domains, mut tallies, tally) = by_zone(&nodes, DrainedNodes::Excluded);
        (0..4).for_each(|node| tallies.add_node(&domains, node));
        for node in [0, 1, 2, 2, 2, 3] {
            tallies.add_pod(&domains, 0, node);
        }
        // 2, 3, 1.
        assert_eq!(tallies.get(tally).global_minimum(None), 1);
        tallies.remove_pod(&domains, 0, 0);
        tallies.drain_node(&domains, 0);
        // 1, 3, 1: the other node of zone a is there.
        assert_eq!((tallies.get(tally).global_minimum(Some(3)), tallies.get(tally).total), (1, 5));
        tallies.remove_pod(&domains, 0, 1);
        // 0, 3, 1.
        assert_eq!(tallies.get(tally).global_minimum(None), 0);
        tallies.drain_node(&domains, 1);
        // Excluded, 3, 1.
        assert_eq!((tallies.get(tally).global_minimum(None), tallies.get(tally).global_minimum(Some(3))), (1, 0));
        tallies.remove_pod(&domains, 0, 3);
        tallies.drain_node(&domains, 3);
        // Excluded, 3, excluded.
        assert_eq!(tallies.get(tally).global_minimum(None), 3);
        tallies.undrain_node(&domains, 3);
        assert_eq!(tallies.get(tally).global_minimum(None), 0);
    }

    #[test]
    fn a_drained_node_stays_in_its_domain() {
        let nodes = nodes();
        let (domains, mut tallies, tally) = by_zone(&nodes, DrainedNodes::Count);
        (1..4).for_each(|node| tallies.add_node(&domains, node));
        tallies.add_drained_node(&domains, 0);
        for node in [2, 3, 3] {
            tallies.add_pod(&domains, 0, node);
        }
        // 0, 1, 2: zone a has two nodes without pods.
        tallies.drain_node(&domains, 1);
        assert_eq!((tallies.get(tally).global_minimum(None), tallies.get(tally).global_minimum(Some(3))), (0, 0));
        let (domains, mut tallies, tally) = by_zone(&nodes, DrainedNodes::Excluded);
        tallies.add_node(&domains, 2);
        tallies.add_drained_node(&domains, 0);
        tallies.add_pod(&domains, 0, 2);
        // Zone a does not count.
        assert_eq!(tallies.get(tally).global_minimum(None), 1);
    }
}
