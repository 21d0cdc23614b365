use futures::FutureExt;

use super::*;
use store::lease::{LeaseOutcome, Scope};
use store::memory::MemoryStore;

fn lease(cluster: &str, epoch: u64) -> Lease {
    Lease { scope: Scope::cluster(cluster), owner: "a".to_owned(), epoch }
}

fn held_leases(leases: &[Lease]) -> HeldLeases {
    let held_leases = HeldLeases::default();
    leases.iter().for_each(|lease| held_leases.add(lease));
    held_leases
}

#[test]
fn leases_are_renewed_while_the_loop_is_slow_and_not_when_it_is_stalled() {
    let held_leases = held_leases(&[lease("blue", 1)]);
    assert_eq!(leases_due(&held_leases, None, None), Some(vec![lease("blue", 1)]));
    assert_eq!(leases_due(&held_leases, None, Some("stuck".to_owned())), None, "other replicas may take over");
    assert_eq!(leases_due(&HeldLeases::default(), None, None), None);
    // A request is always answered; otherwise the loop would wait forever.
    assert_eq!(leases_due(&HeldLeases::default(), Some(Vec::new()), Some("stuck".to_owned())), Some(Vec::new()));
}

#[test]
fn the_loops_leases_are_renewed_until_it_learns_of_their_loss() {
    let held_leases = held_leases(&[lease("blue", 2), lease("green", 1)]);
    let asked = Some(vec![lease("blue", 1), lease("green", 1), lease("red", 7)]);
    let all = [lease("blue", 2), lease("green", 1), lease("blue", 1), lease("red", 7)];
    assert_eq!(leases_due(&held_leases, asked, None).as_deref(), Some(&all[..]));
    held_leases.remove(&lease("blue", 1));
    held_leases.remove(&lease("green", 1));
    assert_eq!(leases_due(&held_leases, None, None), Some(vec![lease("blue", 2)]), "the lease of a later epoch stays");
}

/// The test's thread has no runtime: renewals need only their own.
#[test]
fn renewals_run_on_their_own_thread_without_requests() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (duration, scope) = (Duration::from_secs(30), Scope::cluster("blue"));
    let granted = store.acquire_lease(&scope, "a", 0, duration).now_or_never().unwrap().unwrap();
    let LeaseOutcome::Granted { lease: held, .. } = granted else { panic!("{granted:?}") };
    let gone = lease("green", 9);
    let (fence, held_leases) = (Arc::<Fence>::default(), Arc::new(held_leases(&[held.clone(), gone.clone()])));
    let renewer = LeaseRenewer {
        store,
        fence: Arc::clone(&fence),
        held_leases: Arc::clone(&held_leases),
        duration,
        conditions: Arc::default(),
    };
    assert!(!fence.allows(&held));
    let mut lease_renewal = LeaseRenewalThread::start(renewer, Duration::from_millis(1), Arc::default()).unwrap();
    let first = lease_renewal.renewals.blocking_recv().unwrap();
    assert_eq!(first.lost, std::slice::from_ref(&gone));
    assert!(fence.allows(&held) && !fence.allows(&gone));
    assert_eq!(lease_renewal.renewals.blocking_recv().unwrap().lost, [], "a lost lease is renewed once");
}
