use super::*;
use crate::testing::pool;
use model::input::PlanningInput;
use model::offering::SharedCatalogue;
use model::resources::{CPU, MEMORY, NODES};
use model::{PodShape, PoolName, Requirement, Resources};

/// A pool that may choose from `catalogue`.
fn of(catalogue: &SharedCatalogue) -> NodePool {
    NodePool { catalogue: SharedCatalogue::clone(catalogue), ..pool() }
}

fn resources_of(requests: Resources) -> ResourceOrder {
    ResourceOrder::of(&PlanningInput {
        shapes: vec![PodShape { requests, ..PodShape::default() }],
        ..PlanningInput::default()
    })
}

fn plain() -> ResourceOrder {
    resources_of(Resources::from_iter([(CPU, 100)]))
}

#[test]
fn pools_with_equal_fingerprints_share_offerings_whatever_their_names() {
    let (mut cache, catalogue) = (CompileCache::default(), pool().catalogue);
    let first = cache.pool_offerings(&of(&catalogue), &plain(), &[]);
    // Neither name, weight and the amounts of limits nor a limit on nodes change what can be
    // launched.
    let mut other = of(&catalogue);
    (other.name, other.weight) = (PoolName::from("b"), 7);
    other.limits.set(NODES, 3);
    assert!(Arc::ptr_eq(&first, &cache.pool_offerings(&other, &plain(), &[])));
}

#[test]
fn every_input_of_the_compilation_is_part_of_the_fingerprint() {
    let (mut cache, catalogue) = (CompileCache::default(), pool().catalogue);
    let first = cache.pool_offerings(&of(&catalogue), &plain(), &[]);
    let changes: [fn(&mut NodePool); 7] = [
        |pool| pool.catalogue = SharedCatalogue::new(pool.catalogue.as_ref().clone()),
        |pool| pool.requirements.add(Requirement::equals("tier", "gold")),
        |pool| drop(pool.labels.insert(Text::from("tier"), Text::from("gold"))),
        |pool| pool.limits.set(MEMORY, 1),
        |pool| pool.rules.max_price_per_vcpu = Some(MicroUsd(1)),
        |pool| pool.rules.max_node_price = Some(MicroUsd(1)),
        |pool| pool.rules.max_node_vcpu = Some(1),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut pool = of(&catalogue);
        change(&mut pool);
        assert!(!Arc::ptr_eq(&first, &cache.pool_offerings(&pool, &plain(), &[])), "change {at}");
    }
    let gpus = resources_of(Resources::from_iter([(CPU, 100), ("nvidia.com/gpu", 1)]));
    assert!(!Arc::ptr_eq(&first, &cache.pool_offerings(&of(&catalogue), &gpus, &[])));
    assert!(!Arc::ptr_eq(&first, &cache.pool_offerings(&of(&catalogue), &plain(), &[Text::from("tier")])));
    assert!(Arc::ptr_eq(&first, &cache.pool_offerings(&of(&catalogue), &plain(), &[])), "the first is still cached");
}

#[test]
fn pools_that_differ_in_labels_share_catalogue_offerings() {
    let (mut cache, catalogue) = (CompileCache::default(), pool().catalogue);
    let mut other = of(&catalogue);
    other.labels.insert(Text::from("team"), Text::from("a"));
    let (first, second) =
        (cache.pool_offerings(&of(&catalogue), &plain(), &[]), cache.pool_offerings(&other, &plain(), &[]));
    assert!(!Arc::ptr_eq(&first, &second) && first.shares_catalogue_with(&second));
    assert_eq!(cache.catalogue_offerings.len(), 1);
}

#[test]
fn recently_used_entries_are_kept_and_entries_of_freed_catalogues_are_removed() {
    let (mut cache, catalogue) = (CompileCache::default(), pool().catalogue);
    let limited = |device: usize| {
        let mut pool = of(&catalogue);
        pool.limits.set(format!("device-{device}").as_str(), 1);
        pool
    };
    let first = cache.pool_offerings(&limited(0), &plain(), &[]);
    for other in 1..MAX_CATALOGUE_OFFERINGS {
        let _stall = cache.pool_offerings(&limited(other), &plain(), &[]);
    }
    // 64 are kept: 0 to 63. Using 0 makes 1 the least recently used, and 64 replaces it.
    assert!(Arc::ptr_eq(&first, &cache.pool_offerings(&limited(0), &plain(), &[])));
    let _stall = cache.pool_offerings(&limited(MAX_CATALOGUE_OFFERINGS), &plain(), &[]);
    assert_eq!(cache.catalogue_offerings.len(), 64);
    assert!(Arc::ptr_eq(&first, &cache.pool_offerings(&limited(0), &plain(), &[])));
    assert!(
        !cache.catalogue_offerings.iter().any(|(fingerprint, _)| fingerprint.limited.contains(&Text::from("device-1")))
    );
    drop(catalogue);
    let _stall = cache.pool_offerings(&pool(), &plain(), &[]);
    assert_eq!(
        (cache.catalogue_offerings.len(), cache.pool_offerings.len()),
        (1, 1),
        "a freed catalogue removes its pool offerings"
    );
}
