use super::*;
use crate::cluster::testing::pool;
use crate::input::PlanningInput;
use crate::model::offering::SharedCatalogue;
use crate::model::resources::{CPU, MEMORY, NODES};
use crate::model::{PodShape, Requirement, Resources};

/// A pool that may choose from `catalogue`.
fn of(catalogue: &SharedCatalogue) -> NodePool {
    NodePool { catalogue: SharedCatalogue::clone(catalogue), ..pool().pool }
}

fn axis_of(requests: Resources) -> Axis {
    Axis::of(&PlanningInput { shapes: vec![PodShape { requests, ..PodShape::default() }], ..PlanningInput::default() })
}

fn plain() -> Axis {
    axis_of(Resources::from_iter([(CPU, 100)]))
}

#[test]
fn pools_of_one_wording_share_a_stall_whatever_they_are_called() {
    let (mut memo, catalogue) = (CompileCache::default(), pool().pool.catalogue);
    let first = memo.stall(&of(&catalogue), &plain(), &[]);
    // Neither name, weight and the amounts of limits nor a limit on nodes change what can be bought.
    let mut other = of(&catalogue);
    (other.name, other.weight) = (Text::from("b"), 7);
    other.limits.set(NODES, 3);
    assert!(Arc::ptr_eq(&first, &memo.stall(&other, &plain(), &[])));
}

#[test]
fn whatever_a_stall_is_made_from_tells_it_from_others() {
    let (mut memo, catalogue) = (CompileCache::default(), pool().pool.catalogue);
    let first = memo.stall(&of(&catalogue), &plain(), &[]);
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
        assert!(!Arc::ptr_eq(&first, &memo.stall(&pool, &plain(), &[])), "change {at}");
    }
    let gpus = axis_of(Resources::from_iter([(CPU, 100), ("nvidia.com/gpu", 1)]));
    assert!(!Arc::ptr_eq(&first, &memo.stall(&of(&catalogue), &gpus, &[])));
    assert!(!Arc::ptr_eq(&first, &memo.stall(&of(&catalogue), &plain(), &[Text::from("tier")])));
    assert!(Arc::ptr_eq(&first, &memo.stall(&of(&catalogue), &plain(), &[])), "the first is still there");
}

#[test]
fn pools_that_differ_in_labels_share_what_they_sell() {
    let (mut memo, catalogue) = (CompileCache::default(), pool().pool.catalogue);
    let mut other = of(&catalogue);
    other.labels.insert(Text::from("team"), Text::from("a"));
    let (first, second) = (memo.stall(&of(&catalogue), &plain(), &[]), memo.stall(&other, &plain(), &[]));
    assert!(!Arc::ptr_eq(&first, &second) && first.sells_as(&second));
    assert_eq!(memo.goods.len(), 1);
}

#[test]
fn what_was_asked_for_last_is_kept_and_what_nobody_has_goes() {
    let (mut memo, catalogue) = (CompileCache::default(), pool().pool.catalogue);
    let limited = |device: usize| {
        let mut pool = of(&catalogue);
        pool.limits.set(format!("device-{device}").as_str(), 1);
        pool
    };
    let first = memo.stall(&limited(0), &plain(), &[]);
    for other in 1..MOST_GOODS {
        let _stall = memo.stall(&limited(other), &plain(), &[]);
    }
    // 64 are kept: 0 to 63. Asking for 0 makes 1 the one that was asked for longest ago, and 64 takes its place.
    assert!(Arc::ptr_eq(&first, &memo.stall(&limited(0), &plain(), &[])));
    let _stall = memo.stall(&limited(MOST_GOODS), &plain(), &[]);
    assert_eq!(memo.goods.len(), 64);
    assert!(Arc::ptr_eq(&first, &memo.stall(&limited(0), &plain(), &[])));
    assert!(!memo.goods.iter().any(|(trade, _)| trade.limited.contains(&Text::from("device-1"))));
    drop(catalogue);
    let _stall = memo.stall(&pool().pool, &plain(), &[]);
    assert_eq!((memo.goods.len(), memo.stalls.len()), (1, 1), "a catalogue that is gone takes its stalls along");
}
