//! Who sent an operator request, for the audit log.

use std::net::IpAddr;

/// Metadata key in which a command states its user as `user@host`. It authenticates nobody.
pub const USER_KEY: &str = "fleetwright-user";

/// Maximum characters of a stated user.
const MAX_CHARS: usize = 100;

/// The caller as the audit log has it: the authenticated client; else what the client states, marked as
/// unverified, with the address of the peer.
pub fn name(client: Option<&str>, stated: Option<&str>, peer: Option<IpAddr>) -> String {
    let address = peer.map_or_else(|| "unknown address".to_owned(), |ip| ip.to_string());
    let stated = stated.map(str::trim).filter(|stated| is_user(stated));
    match (client, stated) {
        (Some(client), _) => client.to_owned(),
        (None, Some(stated)) => format!("{stated} (unverified, {address})"),
        (None, None) => format!("peer {address}"),
    }
}

fn is_user(stated: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '.' | '-' | '_');
    !stated.is_empty() && stated.len() <= MAX_CHARS && stated.chars().all(is_allowed)
}

/// `user@host` of this process. Characters other than letters, digits, `.`, `-` and `_` become `_`.
pub fn of_process(user: Option<&str>, host: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let clean = |text: &str| -> String {
        text.trim().chars().take(MAX_CHARS / 2 - 1).map(|c| if is_allowed(c) { c } else { '_' }).collect()
    };
    let or_unknown = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
    format!("{}@{}", or_unknown(clean(user.unwrap_or_default())), or_unknown(clean(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn an_authenticated_client_is_named_by_its_name_alone() {
        assert_eq!(name(Some("on-call"), Some("kim@laptop"), Some(HERE)), "on-call");
    }

    #[test]
    fn a_stated_user_is_marked_as_unverified() {
        assert_eq!(name(None, Some("kim@laptop"), Some(HERE)), "kim@laptop (unverified, 127.0.0.1)");
        assert_eq!(name(None, None, Some(HERE)), "peer 127.0.0.1");
        // A text that could be taken for a verified name, a terminal sequence, or a page of text.
        for hostile in ["on-call (verified)", "a\u{1b}[2J", "", &"x".repeat(101)] {
            assert_eq!(name(None, Some(hostile), Some(HERE)), "peer 127.0.0.1", "{hostile:?}");
        }
    }

    #[test]
    fn what_a_process_states_is_accepted_by_the_server() {
        assert_eq!(of_process(Some("kim"), "laptop\n"), "kim@laptop");
        assert_eq!(of_process(None, ""), "unknown@unknown");
        for (user, host) in [("d\u{f6}rte m", "h"), (&*"u".repeat(300), &*"h".repeat(300))] {
            assert!(is_user(&of_process(Some(user), host)), "{user}");
        }
        assert_eq!(of_process(Some("a b@c"), "h"), "a_b_c@h");
    }
}
