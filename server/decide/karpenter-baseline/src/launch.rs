//! What the AWS provider launches for a finished NodeClaim (Karpenter AWS §4.2), and its price.

use model::input::{MinValuesPolicy, PlanningInput};
use model::labels::{CAPACITY_TYPE, HOSTNAME, RESERVATION_ID};
use model::{CapacityType, MicroUsd, Offering, Operator, Requirement, Requirements};

use crate::amounts::Amounts;
use crate::claim::Claim;
use crate::launches::LaunchedNode;
use crate::supply::PoolSupply;

/// Number of instance types that one launch names.
const LAUNCH_OPTIONS: usize = 60;

/// A type of the NodeClaim with an offering of it.
#[derive(Clone, Copy)]
struct Candidate<'i> {
    /// Index into the types of the pool.
    at: usize,
    offering: &'i Offering,
}

/// The machine that `claim` becomes: the cheapest offering of the capacity type that is tried first.
/// `None` if no offering is left, or too few types for `minValues`.
pub(crate) fn launch(claim: &Claim, supply: &PoolSupply<'_>, input: &PlanningInput) -> Option<LaunchedNode> {
    let requirements = final_requirements(claim);
    let has_min_values = requirements.iter().any(|requirement| requirement.min_values().is_some());
    let allowed = supply.allowed_offerings(&requirements, input);
    let requests = claim.final_requests(supply);
    let holds = |at: &&usize| requests.fits_into(&supply.types[**at].allocatable);
    let of_type = |at: &usize| {
        let at = *at;
        let offerings = supply.types[at].offerings.iter().filter(|(kind, _)| allowed[*kind]);
        offerings.map(move |(_, offering)| Candidate { at, offering })
    };
    let mut candidates: Vec<Candidate<'_>> = claim.types.iter().filter(holds).flat_map(of_type).collect();
    if !has_min_values {
        prefer_ordinary_types(&mut candidates, supply);
        drop_dear_spot(&mut candidates);
    }
    candidates.sort_by_key(|candidate| (candidate.offering.price, candidate.at, candidate.offering.zone.clone()));
    keep_cheapest_types(&mut candidates);
    let types: Vec<usize> = candidates.iter().map(|candidate| candidate.at).collect();
    if input.policy.min_values == MinValuesPolicy::Strict && !claim.has_min_values(supply, &types) {
        return None;
    }
    let first = candidates.iter().map(|candidate| candidate.offering.capacity_type).min()?;
    let chosen = candidates.iter().find(|candidate| candidate.offering.capacity_type == first)?;
    Some(LaunchedNode {
        pool: supply.index,
        instance_type: supply.types[chosen.at].index,
        zone: chosen.offering.zone.clone(),
        capacity_type: first,
        price: chosen.offering.price,
        credits: credits(supply, chosen.at, &requests),
        pods: claim.pods.clone(),
    })
}

/// What the CPU of `requests` costs beyond the baseline of the type `at`.
fn credits(supply: &PoolSupply<'_>, at: usize, requests: &Amounts) -> MicroUsd {
    let burstable = supply.types[at].machine.burstable.filter(|_| !supply.pool.rules.ignores_credits);
    let (Some(burstable), Some(cpu)) = (burstable, supply.cpu) else { return MicroUsd(0) };
    burstable.surplus_credits(requests.at(cpu))
}

/// The requirements of the NodeClaim without its placeholder; a NodeClaim that holds reservations uses
/// nothing else.
fn final_requirements(claim: &Claim) -> Requirements {
    let mut requirements = claim.requirements.clone();
    requirements.remove(HOSTNAME);
    if !claim.reserved.is_empty() {
        requirements.add(Requirement::equals(CAPACITY_TYPE, CapacityType::Reserved.as_str()));
        requirements.add(Requirement::new(RESERVATION_ID, Operator::In, claim.reserved.iter().cloned()));
    }
    requirements
}

/// Leaves out metal and accelerators, unless nothing else is left.
fn prefer_ordinary_types(candidates: &mut Vec<Candidate<'_>>, supply: &PoolSupply<'_>) {
    let is_ordinary = |candidate: &Candidate<'_>| !supply.types[candidate.at].machine.exotic;
    if candidates.iter().any(is_ordinary) {
        candidates.retain(is_ordinary);
    }
}

/// Leaves out spot offerings that cost more than the cheapest on-demand offering.
fn drop_dear_spot(candidates: &mut Vec<Candidate<'_>>) {
    let on_demand = candidates.iter().filter(|candidate| candidate.offering.capacity_type == CapacityType::OnDemand);
    if let Some(least) = on_demand.map(|candidate| candidate.offering.price).min() {
        candidates.retain(|c| c.offering.capacity_type != CapacityType::Spot || c.offering.price <= least);
    }
}

/// Keeps the types that one launch names, of candidates sorted by price.
fn keep_cheapest_types(candidates: &mut Vec<Candidate<'_>>) {
    let mut kept = std::collections::BTreeSet::new();
    candidates
        .retain(|candidate| kept.contains(&candidate.at) || (kept.len() < LAUNCH_OPTIONS && kept.insert(candidate.at)));
}
