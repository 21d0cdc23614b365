//! Sign-in to the dashboard in a browser, its buttons, and pages of others that try to use them.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use e2e::kubernetes::certificate_authority::CertificateAuthority;
use e2e::{Browser, Program, RunningProcess, TempDir, authority, identity_provider};
use serde_json::json;

use crate::{SIMULATOR, TIMEOUT, fleetwright};

/// SHA-256 of the tokens `looker` and `operator`, as `printf %s looker | sha256sum` prints them.
const LOOKER: &str = "[[clients]]\nname = 'looker'\nscope = 'read'\n\
     token-sha256 = 'd133efd9800e396abbeb9de0cc7a6f873d58159121a0fc587f8a2ec1208ad50a'\n";
const OPERATOR: &str = "[[clients]]\nname = 'operator'\nscope = 'admin'\n\
     token-sha256 = '06e55b633481f7bb072957eabcf110c972e86691c3cfedabe088024bffe42f23'\n";

/// A reason with markup, a script, and characters that reverse the text after them.
const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\"> a\u{202e}b";

const SESSION: &str = "__Host-fleetwright-session";

struct Dashboard {
    folder: TempDir,
    server: RunningProcess,
    grpc: String,
    /// `http://localhost:port`.
    http: String,
}

impl Dashboard {
    fn start(trust: &str, arguments: &[&str]) -> Self {
        let folder = TempDir::new();
        let file = folder.write_file("auth.toml", trust);
        let _path = folder.write_file("operator", "operator\n");
        let listeners = ["--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--auth-file", &file];
        let server = Program::new(SIMULATOR, &[&["serve", "--dev"], &listeners[..], arguments].concat()).start();
        let [grpc, http] = server.wait_for_urls(TIMEOUT);
        let http = http.trim_end_matches('/').replacen("127.0.0.1", "localhost", 1);
        Self { folder, server, grpc, http }
    }

    fn command(&self, command: &[&str]) -> String {
        let token = self.folder.path().join("operator").display().to_string();
        let ended = fleetwright(&[command, &["--server", &self.grpc, "--token-file", &token]].concat());
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        ended.stdout
    }
}

fn sign_in(browser: &mut Browser, token: &str) {
    browser.wait_for(&["Sign in"]);
    browser.evaluate("document.querySelector('input[name=token]').focus()");
    browser.type_text(token);
    browser.press("Enter");
}

/// Clicks the button with this text.
fn click(browser: &mut Browser, title: &str) {
    let script =
        format!("[...document.querySelectorAll('button')].find((one) => one.innerText === {}).click()", json!(title));
    browser.evaluate(&script);
}

#[test]
fn a_browser_signs_in_by_token_acts_within_its_scope_and_signs_out() {
    let Some(mut browser) = Browser::start("a_browser_signs_in_by_token_acts_within_its_scope_and_signs_out") else {
        return;
    };
    let dashboard = Dashboard::start(&format!("{LOOKER}{OPERATOR}"), &[]);
    browser.open(&format!("{}/capacity", dashboard.http));
    sign_in(&mut browser, "stranger");
    browser.wait_for(&["the trust file has no client with this token"]);
    browser.open(&format!("{}/capacity", dashboard.http));
    sign_in(&mut browser, "looker");
    browser.wait_for(&["Nothing is frozen.", "You need the scope operate", "looker (read, until"]);
    let cookies = browser.cookies();
    let session = cookies.iter().find(|cookie| cookie["name"] == SESSION).expect("a session");
    let guarded = json!([session["httpOnly"], session["secure"], session["sameSite"], session["domain"]]);
    assert_eq!(guarded, json!([true, true, "Strict", "localhost"]));
    assert_eq!(browser.evaluate("document.cookie"), "", "no script reads the session");
    // What a stolen cookie alone does: the browser sends it.
    let status = "fetch('/v1/clusters').then((answer) => answer.status)";
    assert_eq!(browser.evaluate(status), 401);
    // What the page shows is not all that is checked: the method itself refuses.
    let forced = "fetch('/v1/freezes', {method: 'POST', headers: {'Content-Type': 'application/json', \
                  'X-Fleetwright-Session-Key': localStorage.getItem('fleetwright-session-key')}, \
                  body: JSON.stringify({reason: 'forced'})}).then((answer) => answer.text())";
    let refused = browser.evaluate(forced).to_string();
    assert!(refused.contains("looker has scope read; this needs scope operate"), "{refused}");
    click(&mut browser, "Sign out");
    sign_in(&mut browser, "operator");
    browser.wait_for(&["operator (admin, until"]);
    browser.open(&format!("{}/capacity", dashboard.http));
    browser.wait_for(&["Freeze the whole fleet", "Nothing is frozen."]);
    click(&mut browser, "Freeze the whole fleet");
    browser.wait_for(&["Reason"]);
    browser.evaluate("document.querySelector('input[name=reason]').focus()");
    browser.type_text(HOSTILE);
    browser.press("Enter");
    browser.wait_for(&["It is frozen: freeze 1.", "onerror=\"document.title='taken'\"> a\\u202eb, by operator"]);
    assert_eq!(browser.evaluate("document.querySelectorAll('#page img').length"), 0);
    click(&mut browser, "Thaw");
    browser.wait_for(&["Freeze 1 ends, and what it holds back goes on."]);
    click(&mut browser, "Yes, thaw");
    browser.wait_for(&["Nothing is frozen."]);
    let audit = dashboard.command(&["audit"]);
    assert!(audit.contains("freeze") && audit.contains("thaw") && audit.contains("operator"), "{audit}");
    assert!(!audit.contains("forced"), "{audit}");
    // The entry that signed in is gone: whoever sits there is asked again.
    let _path = dashboard.folder.write_file("auth.toml", LOOKER);
    browser.wait_for(&["Sign in", "Token"]);
    assert_eq!(dashboard.server.stop(TIMEOUT), 0);
}

#[test]
fn a_browser_signs_in_at_the_identity_provider() {
    let Some(mut browser) = Browser::start("a_browser_signs_in_at_the_identity_provider") else { return };
    let authority = CertificateAuthority::new("sign-in").expect("an authority");
    let issuer = identity_provider::serve(&authority, "dashboard", "alice@example.com").expect("a provider");
    let issued = authority.issue_certificate(&["localhost"]).expect("a certificate");
    let files = TempDir::new();
    let (ca, certificate) =
        (files.write_file("ca.crt", authority.pem()), files.write_file("tls.crt", issued.certificate));
    let key = files.write_file("tls.key", issued.key);
    let trust = |url: &str| {
        format!(
            "[oidc]\nissuer = '{issuer}'\nclient-id = 'dashboard'\nurl = '{url}'\nca-file = '{ca}'\n\
             [[clients]]\nname = 'alice'\nscope = 'operate'\n\
             token = {{ issuer = '{issuer}', subject = 'alice@example.com', audience = 'dashboard', ca-file = '{ca}' }}\n"
        )
    };
    let tls = ["--listen-tls-certificate", &certificate, "--listen-tls-key", &key];
    let dashboard = Dashboard::start(&trust("https://localhost"), &tls);
    let _path = dashboard.folder.write_file("auth.toml", trust(&dashboard.http));
    let _reloaded = dashboard.server.wait_for_line(&["trust file reloaded"], TIMEOUT);
    browser.open(&format!("{}/capacity", dashboard.http));
    browser.wait_for(&["Sign in at the identity provider"]);
    click(&mut browser, "Sign in at the identity provider");
    browser.wait_for(&["alice (operate, until", "Nothing is frozen."]);
    assert_eq!(browser.evaluate("location.pathname + location.hash"), "/capacity", "the key is out of the address");
    // A link with a key that this tab has not asked for changes nothing.
    browser.open("about:blank");
    browser.open(&format!("{}/capacity#session-key=stolen", dashboard.http));
    browser.wait_for(&["alice (operate, until", "Nothing is frozen."]);
    // A return that another browser has begun.
    browser.open(&format!("{}/session/oidc/return?code=code0&state=other", dashboard.http));
    browser.wait_for(&["this browser has begun no such sign-in"]);
    assert_eq!(dashboard.server.stop(TIMEOUT), 0);
}

/// Serves `page` to everybody until the process ends; returns the port.
fn attacker(page: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let lines = BufReader::new(connection.try_clone().expect("a socket")).lines();
            let _head = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            let length = page.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _sent = connection.write_all((head + &page).as_bytes());
        }
    });
    port
}

#[test]
fn pages_of_other_origins_neither_read_nor_act_with_the_session_of_a_browser() {
    let test = "pages_of_other_origins_neither_read_nor_act_with_the_session_of_a_browser";
    let Some(mut browser) = Browser::start(test) else { return };
    let dashboard = Dashboard::start(OPERATOR, &[]);
    browser.open(&dashboard.http);
    sign_in(&mut browser, "operator");
    browser.wait_for(&["No cluster yet"]);
    let http = &dashboard.http;
    // Everything that a page can send without the consent of the server: a form, a request without CORS, and one with a header.
    let port = attacker(format!(
        "<body>waiting<form method='post' action='{http}/v1/freezes' enctype='text/plain' target='frame'>\
         <input name='{{&quot;reason&quot;:&quot;forged&quot;,&quot;x&quot;:&quot;' value='&quot;}}'></form>\
         <iframe name='frame'></iframe><script>\
         document.forms[0].submit();\
         const body = JSON.stringify({{reason: 'forged'}});\
         const send = (options) => fetch('{http}/v1/freezes', {{method: 'POST', credentials: 'include', body, ...options}})\
           .then((answer) => answer.type + ' ' + answer.status, () => 'refused');\
         const read = (options) => fetch('{http}/v1/clusters', {{credentials: 'include', ...options}})\
           .then((answer) => answer.text(), () => 'refused');\
         Promise.all([send({{mode: 'no-cors'}}), send({{headers: {{'Content-Type': 'application/json'}}}}),\
           send({{mode: 'no-cors', headers: {{'Content-Type': 'application/x-www-form-urlencoded'}}}}),\
           read({{}}), read({{mode: 'no-cors'}}), \
           fetch('{http}/session', {{method: 'DELETE', credentials: 'include'}}).then(() => 'signed out', () => 'refused')])\
           .then((answers) => {{ document.body.innerText = 'answers: ' + answers.join(', '); }});\
         </script></body>"
    ));
    // Of the same site, to which the browser sends the cookie, and of another one.
    for origin in ["http://localhost", "http://evil.example"] {
        browser.open(&format!("{origin}:{port}/"));
        let answers = browser.wait_for(&["answers: "]);
        assert_eq!(answers.trim(), "answers: opaque 0, refused, opaque 0, refused, , refused", "{origin}");
    }
    // The same port under the attacker's name, as after DNS rebinding: there is no session for that name.
    let rebound = format!("http://evil.example:{}", authority(http).rsplit(':').next().expect("a port"));
    browser.open(&rebound);
    browser.wait_for(&["Sign in"]);
    assert_eq!(browser.evaluate("fetch('/v1/clusters').then((answer) => answer.status)"), 401);
    assert_eq!(dashboard.command(&["freezes", "-o", "json"]), "[]\n");
    browser.open(http);
    browser.wait_for(&["No cluster yet", "operator (admin, until"]);
    assert_eq!(dashboard.server.stop(TIMEOUT), 0);
}

/// Without authentication every local program has every right, and a page that a local browser shows has none.
#[test]
fn without_authentication_a_page_of_another_name_reads_nothing() {
    let Some(mut browser) = Browser::start("without_authentication_a_page_of_another_name_reads_nothing") else {
        return;
    };
    let listeners = ["serve", "--dev", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(SIMULATOR, &listeners).start();
    let [_grpc, http] = server.wait_for_urls(TIMEOUT);
    let port = authority(&http).rsplit(':').next().expect("a port").to_owned();
    for path in ["/", "/v1/clusters", "/session", "/metrics"] {
        browser.open(&format!("http://evil.example:{port}{path}"));
        browser.wait_for(&["Host \"evil.example:", "is not localhost"]);
    }
    browser.open(&http);
    browser.wait_for(&["No cluster yet"]);
    assert_eq!(server.stop(TIMEOUT), 0);
}
