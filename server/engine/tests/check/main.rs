//! The second pair of eyes is tested by sabotage: small worlds with a correct plan, in which one fault is planted each, and
//! exactly that fault must be found. The lower bound is tested against optimal packings found by trying everything.

mod accounts;
mod between_pods;
mod bound;
mod bound_is_never_above_the_optimum;
mod machines;
mod opt_in;
mod seats;
mod statics;
mod world;
