//! Errors in full: what failed, and what lies beneath it.

/// An error with everything beneath it; the outermost sentence alone rarely names the cause. What a
/// sentence repeats of the one above is said once.
#[must_use]
pub fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
