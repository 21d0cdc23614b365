//! The query protocol of EC2, IAM and STS: parameters of a form in, XML out.

pub(crate) mod filters;
pub(crate) mod paging;
pub(crate) mod parameters;
pub(crate) mod xml;
