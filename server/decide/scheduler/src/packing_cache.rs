//! What a packing computes once and looks up for every pod or two: domains, fits and zones. The
//! methods of `eligible` and `rules` fill it.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::bit_set::BitSet;
use super::classes::PreferenceSet;
use super::fits::FitId;
use super::topology::{DomainId, KeyId, Pin, ScopeId};
use model::{MicroUsd, Zone};

/// Class and preferences, and whether untolerated `PreferNoSchedule` taints exclude a node or pool.
pub(super) type ClassQuery = (u32, PreferenceSet, bool);
/// Scope and number of events; the possible domains, and the number of certain ones.
type PresentDomains = ((ScopeId, usize), (Rc<[DomainId]>, usize));

/// Domains and fits that were computed for rules and classes.
#[derive(Debug, Default)]
pub(super) struct DomainCache {
    pub(super) eligible: FxHashMap<ScopeId, Rc<[DomainId]>>,
    /// The domains present for a scope after this many events.
    pub(super) present: Option<PresentDomains>,
    pub(super) reachable: FxHashMap<(ClassQuery, KeyId), Rc<[DomainId]>>,
    pub(super) may_lack: FxHashMap<(ClassQuery, KeyId), bool>,
    pub(super) prices: FxHashMap<(ClassQuery, Pin), i64>,
    /// By scope and pool.
    pub(super) passing: FxHashMap<(ScopeId, u32), Rc<[FitId]>>,
    pub(super) nodes_in_domain: FxHashMap<Pin, Rc<BitSet>>,
    /// A class, and the admitting nodes that are not full for it.
    pub(super) candidates: Option<(u32, BitSet)>,
}

/// Zones by name, each with a price.
pub(super) type Zones = Rc<[(Zone, MicroUsd)]>;

/// Cached zone lists; independent of placed pods.
#[derive(Debug, Default)]
pub(super) struct ZoneCache {
    /// By class and fit, and whether pools with untolerated `PreferNoSchedule` taints are excluded.
    pub(super) usable: FxHashMap<(u32, FitId, bool), Zones>,
    pub(super) offering_capacity: FxHashMap<(u32, FitId), Zones>,
}
