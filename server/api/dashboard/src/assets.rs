//! The page: one document for the addresses of all views, and what it loads. All of it is in the program; nothing is loaded
//! from elsewhere.

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Only resources of this server are loaded; framing and forms are disabled.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

const TEXT: &str = "text/plain; charset=utf-8";

const STYLE: &str = "text/css; charset=utf-8";

/// Addresses of views, which `page/main.js` tells apart.
const VIEWS: [&str; 7] =
    ["/", "/clusters", "/clusters/{cluster}", "/clusters/{cluster}/nodes/{node}", "/decisions", "/capacity", "/cost"];

/// A file of the page below `/assets`.
type Asset = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($path:literal $content_type:ident),* $(,)?) => {
        [$((concat!("/assets/", $path), $content_type, include_str!(concat!("page/", $path)))),*]
    };
}

const ASSETS: [Asset; 19] = assets![
    "style.css" STYLE,
    "main.js" SCRIPT,
    "html.js" SCRIPT,
    "format.js" SCRIPT,
    "queries.js" SCRIPT,
    "session.js" SCRIPT,
    "sign_in.js" SCRIPT,
    "freezes.js" SCRIPT,
    "parts.js" SCRIPT,
    "fleet_views.js" SCRIPT,
    "cluster_views.js" SCRIPT,
    "cost_parts.js" SCRIPT,
    "cost_views.js" SCRIPT,
    "spend_views.js" SCRIPT,
    "vendor/preact.mjs" SCRIPT,
    "vendor/htm.mjs" SCRIPT,
    "vendor/preact.LICENSE" TEXT,
    "vendor/htm.LICENSE" TEXT,
    "vendor/README.md" TEXT,
];

pub(crate) fn router() -> Router {
    let views = VIEWS.into_iter().fold(Router::new(), |router, view| router.route(view, get(async || document())));
    let views = views.fallback(unknown);
    ASSETS.into_iter().fold(views, |router, (path, content_type, body)| {
        router.route(path, get(move || async move { asset(content_type, body) }))
    })
}

fn document() -> Response {
    asset("text/html; charset=utf-8", include_str!("page/index.html"))
}

/// An address of no view: a browser shows that there is none, with the way to those that there are.
async fn unknown(headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.contains("text/html") {
        return (StatusCode::NOT_FOUND, document()).into_response();
    }
    (StatusCode::NOT_FOUND, "there is nothing at this address\n").into_response()
}

fn asset(content_type: &'static str, body: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use axum::body::to_bytes;
    use sha2::{Digest, Sha256};

    use super::*;

    fn file(path: &str) -> &'static str {
        ASSETS.into_iter().find(|(known, ..)| *known == path).map(|(.., body)| body).expect(path)
    }

    #[test]
    fn libraries_are_those_of_their_packages() {
        let rows = file("/assets/vendor/README.md").lines().filter(|line| line.starts_with("| `"));
        let mut compared = 0;
        for row in rows {
            let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let mut digest = String::new();
            for byte in Sha256::digest(file(&format!("/assets/vendor/{}", cells[1]))) {
                write!(digest, "{byte:02x}").expect("a String takes all");
            }
            assert_eq!(digest, cells[5], "{}", cells[1]);
            compared += 1;
        }
        assert_eq!(
            compared,
            ASSETS.iter().filter(|(path, ..)| path.contains("/vendor/") && path.ends_with(".mjs")).count()
        );
    }

    /// A module that is not served leaves an empty page.
    #[test]
    fn every_module_imports_files_that_are_served() {
        let mut imports = 0;
        for (path, content_type, body) in ASSETS {
            assert!(content_type != SCRIPT || !body.contains("import("), "{path} imports at run time");
            for line in body.lines().filter(|line| content_type == SCRIPT && line.starts_with("import ")) {
                let imported = line.split('"').nth(1).and_then(|from| from.strip_prefix("./")).expect(line);
                assert!(file(&format!("/assets/{imported}")).contains("export"), "{path}: {line}");
                imports += 1;
            }
        }
        assert!(imports > 10, "{imports} imports");
    }

    /// Texts of clusters would be markup.
    #[test]
    fn no_script_of_the_page_sets_markup() {
        for (path, ..) in ASSETS.iter().filter(|(path, ..)| path.ends_with(".js")) {
            for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="] {
                assert!(!file(path).contains(forbidden), "{path} has {forbidden}");
            }
        }
    }

    #[tokio::test]
    async fn an_address_of_no_view_is_not_found_and_a_browser_shows_the_way_back() {
        use tower::ServiceExt;
        for (accept, begins) in [("text/html,*/*", "<!doctype html>"), ("application/json", "there is nothing at")] {
            let request = http::Request::get("/nothing").header(header::ACCEPT, accept);
            let request = request.body(axum::body::Body::empty()).expect("a request");
            let response = router().oneshot(request).await.expect("an answer");
            assert_eq!(response.status(), StatusCode::NOT_FOUND);
            let body = to_bytes(response.into_body(), 10_000).await.expect("a body");
            assert!(body.starts_with(begins.as_bytes()), "{accept}");
        }
    }

    #[tokio::test]
    async fn every_view_has_an_address_with_the_same_document_under_the_policy() {
        use tower::ServiceExt;
        for address in
            ["/", "/clusters", "/clusters/shop", "/clusters/shop/nodes/a", "/decisions", "/capacity", "/cost"]
        {
            let request = http::Request::get(address).body(axum::body::Body::empty()).expect("a request");
            let response = router().oneshot(request).await.expect("an answer");
            assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], CONTENT_SECURITY_POLICY, "{address}");
            let body = to_bytes(response.into_body(), 10_000).await.expect("a body");
            assert!(body.starts_with(b"<!doctype html>"), "{address}");
        }
    }
}
