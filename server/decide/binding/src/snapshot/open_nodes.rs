//! The nodes that may have room for a pod, in the order of preference.

use rustc_hash::FxHashMap;

use crate::tallies::{Domains, FewDomains, MAX_FEW_DOMAINS};

/// Nodes by what pods request, less those that were found full; a list is made as far as it is read.
///
/// A pod with a spread constraint reads the lists of the domains that it may go to: in a large cluster most nodes with room
/// are in others.
#[derive(Debug)]
pub(super) struct OpenNodes {
    /// All nodes, in the order of preference. Lists are of positions in it.
    order: Vec<u32>,
    positions: Vec<u32>,
    /// By topology key, the positions of the nodes of each domain.
    by_domain: FxHashMap<usize, Vec<Vec<u32>>>,
    /// By the number of the requests.
    lists: Vec<Lists>,
}

/// What is open for pods of equal requests.
#[derive(Debug, Clone, Default)]
struct Lists {
    all: List,
    /// By topology key, the lists of its domains.
    by_domain: Vec<(usize, Vec<List>)>,
}

/// Open nodes, of those that were looked at.
#[derive(Debug, Clone, Default)]
struct List {
    open: Vec<u32>,
    /// How many of the positions that the list is of were looked at.
    looked_at: usize,
}

/// How far a list is read: of what is before `examined`, what is before `kept` stays.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    examined: usize,
    kept: usize,
}

impl OpenNodes {
    pub(super) fn new(order: Vec<u32>, sizes: usize) -> Self {
        let positions = (0..).zip(&order).map(|(at, _)| at).collect();
        Self { order, positions, by_domain: FxHashMap::default(), lists: vec![Lists::default(); sizes] }
    }

    /// The first node that `runs` a pod whose requests have the number `size`: of the domains `among`, or of all. Nodes
    /// that do not `stay` in the lists run no pod that requests as much.
    pub(super) fn first(
        &mut self,
        (size, among): (usize, Option<FewDomains>),
        domains: &Domains<'_>,
        stays: impl Fn(u32) -> bool,
        runs: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let Self { order, positions, by_domain, lists } = self;
        let lists = &mut lists[size];
        let Some(among) = among else {
            return read(order, &mut [Some((&mut lists.all, positions))], stays, runs);
        };
        let of_domains =
            by_domain.entry(among.key()).or_insert_with(|| positions_by_domain(order, among.key(), domains));
        let lists = lists.of_key(among.key(), of_domains.len());
        let mut read_from: [Option<(&mut List, &[u32])>; MAX_FEW_DOMAINS] = Default::default();
        for (domain, (list, read)) in lists.iter_mut().zip(&mut read_from).enumerate() {
            *read = among.contains(domain).then_some((list, of_domains[domain].as_slice()));
        }
        read(order, &mut read_from[..of_domains.len()], stays, runs)
    }
}

impl Lists {
    fn of_key(&mut self, key: usize, domains: usize) -> &mut [List] {
        let known = self.by_domain.iter().position(|(known, _)| *known == key);
        let at = known.unwrap_or_else(|| {
            self.by_domain.push((key, vec![List::default(); domains]));
            self.by_domain.len() - 1
        });
        &mut self.by_domain[at].1
    }
}

impl List {
    /// The open position at `index`; looks at further ones of `positions` as far as necessary.
    fn get(&mut self, index: usize, positions: &[u32], is_open: impl Fn(u32) -> bool) -> Option<u32> {
        while self.open.len() <= index {
            let next = *positions.get(self.looked_at)?;
            self.looked_at += 1;
            if is_open(next) {
                self.open.push(next);
            }
        }
        Some(self.open[index])
    }
}

fn positions_by_domain(order: &[u32], key: usize, domains: &Domains<'_>) -> Vec<Vec<u32>> {
    let mut lists = vec![Vec::new(); domains.count(key)];
    for (at, node) in (0..).zip(order) {
        if let Some(list) = lists.get_mut(domains.of(key, *node as usize) as usize) {
            list.push(at);
        }
    }
    lists
}

/// The first node of all lists that `runs` the pod.
fn read(
    order: &[u32],
    lists: &mut [Option<(&mut List, &[u32])>],
    stays: impl Fn(u32) -> bool,
    runs: impl Fn(u32) -> bool,
) -> Option<u32> {
    let mut cursors = [Cursor::default(); MAX_FEW_DOMAINS];
    let mut found = None;
    while found.is_none() {
        let heads = lists.iter_mut().zip(&cursors).enumerate().filter_map(|(at, (list, cursor))| {
            let (list, positions) = list.as_mut()?;
            let head = list.get(cursor.examined, positions, |at| stays(order[at as usize]))?;
            Some((head, at))
        });
        let Some((head, at)) = heads.min() else { break };
        let (node, cursor) = (order[head as usize], &mut cursors[at]);
        if let Some((list, _)) = lists[at].as_mut().filter(|_| stays(node)) {
            list.open.swap(cursor.kept, cursor.examined);
            cursor.kept += 1;
        }
        cursor.examined += 1;
        found = runs(node).then_some(node);
    }
    for (list, Cursor { examined, kept }) in lists.iter_mut().zip(cursors) {
        if let Some((list, _)) = list.as_mut().filter(|_| kept < examined) {
            list.open.drain(kept..examined);
        }
    }
    found
}
