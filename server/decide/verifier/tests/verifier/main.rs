//! Tests of the verifier by fault injection: small fixtures with a correct plan in which one fault
//! each is planted, and exactly that fault must be found. The lower bound is tested against optimal
//! packings found by exhaustive search.

mod between_pods;
mod bound;
mod bound_is_never_above_the_optimum;
mod credits;
mod fixture;
mod machines;
mod node_fit;
mod opt_in;
mod placements;
mod removals;
mod static_pools;
mod steps;
