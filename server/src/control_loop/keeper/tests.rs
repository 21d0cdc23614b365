use futures::FutureExt;

use super::*;
use crate::store::lease::{LeaseAnswer, Scope};
use crate::store::memory::MemoryStore;

fn lease(cluster: &str, epoch: u64) -> Lease {
    Lease { scope: Scope::cluster(cluster), owner: "a".to_owned(), epoch }
}

fn roster(leases: &[Lease]) -> Roster {
    let roster = Roster::default();
    leases.iter().for_each(|lease| roster.add(lease));
    roster
}

#[test]
fn leases_are_renewed_although_the_loop_is_slow_and_not_when_it_is_stuck() {
    let roster = roster(&[lease("blue", 1)]);
    assert_eq!(due(&roster, None, None), Some(vec![lease("blue", 1)]));
    assert_eq!(due(&roster, None, Some("stuck".to_owned())), None, "others may take its clusters over");
    assert_eq!(due(&Roster::default(), None, None), None);
    // Who asks is answered, or it would wait for ever.
    assert_eq!(due(&Roster::default(), Some(Vec::new()), Some("stuck".to_owned())), Some(Vec::new()));
}

#[test]
fn what_the_loop_takes_itself_to_hold_is_asked_about_until_it_hears_that_it_is_lost() {
    let roster = roster(&[lease("blue", 2), lease("green", 1)]);
    let asked = Some(vec![lease("blue", 1), lease("green", 1), lease("red", 7)]);
    let all = [lease("blue", 2), lease("green", 1), lease("blue", 1), lease("red", 7)];
    assert_eq!(due(&roster, asked, None).as_deref(), Some(&all[..]));
    roster.remove(&lease("blue", 1));
    roster.remove(&lease("green", 1));
    assert_eq!(due(&roster, None, None), Some(vec![lease("blue", 2)]), "the lease of a later epoch stays");
}

/// The test's own thread has no runtime: renewals need nobody else's.
#[test]
fn renewals_come_by_themselves_on_a_thread_of_their_own() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (duration, scope) = (Duration::from_secs(30), Scope::cluster("blue"));
    let granted = store.take_lease(&scope, "a", 0, duration).now_or_never().unwrap().unwrap();
    let LeaseAnswer::Granted { lease: held, .. } = granted else { panic!("{granted:?}") };
    let gone = lease("green", 9);
    let (fence, roster) = (Arc::new(Fence::new()), Arc::new(roster(&[held.clone(), gone.clone()])));
    let renewer = Renewer { store, fence: Arc::clone(&fence), roster: Arc::clone(&roster), duration };
    assert!(!fence.allows(&held));
    let mut keeper = Keeper::start(renewer, Duration::from_millis(1), Arc::default()).unwrap();
    let first = keeper.told.blocking_recv().unwrap();
    assert_eq!(first.lost, std::slice::from_ref(&gone));
    assert!(fence.allows(&held) && !fence.allows(&gone));
    assert_eq!(keeper.told.blocking_recv().unwrap().lost, [], "what is lost is asked for once");
}
