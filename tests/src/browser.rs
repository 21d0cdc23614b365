//! A headless Chromium that tests look at the dashboard with. It is driven over two pipes by the DevTools protocol: a client
//! library of it takes longer to build than all tests of the page take to run.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::TempDir;

const PROGRAM: &str = "chromium-headless-shell";

/// Commands come on descriptor 3 and answers leave on 4.
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

/// Names that tests give to attackers are this host; certificates of tests are self-signed.
const NAMES: [&str; 2] = ["--host-resolver-rules=MAP *.example 127.0.0.1", "--ignore-certificate-errors"];

const DEADLINE: Duration = Duration::from_secs(60);

/// A browser with one page. It ends with its value.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: mpsc::Receiver<Value>,
    last_id: u64,
    session: String,
    /// Errors of the page: exceptions, and what the browser logged about it.
    errors: Vec<String>,
    /// Bytes of answers since [`Browser::count_bytes`].
    received: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page; `None` where none is installed, which is printed with the name of the test.
    ///
    /// # Panics
    /// An installed browser does not work.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let is_here = Command::new(PROGRAM).arg("--version").output().is_ok_and(|ended| ended.status.success());
        if !is_here {
            // Written directly to standard error: the test harness hides the output of passing tests.
            let _written = writeln!(std::io::stderr(), "SKIPPED {test}: {PROGRAM} is not installed");
            return None;
        }
        let profile = TempDir::new();
        let folder = format!("--user-data-dir={}", profile.path().display());
        let flags = ["--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", &folder, "about:blank"];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", START, PROGRAM]).args(NAMES).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a shell starts");
        let commands = child.stdin.take().expect("standard input is piped");
        let answers = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { return };
                let _sent = sender.send(message);
            }
        });
        let (session, errors, received) = (String::new(), Vec::new(), 0);
        let mut browser = Self { child, commands, messages, last_id: 0, session, errors, received, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({"targetId": target, "flatten": true}));
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        Some(browser)
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
    }

    /// The value of an expression in the page.
    ///
    /// # Panics
    /// It throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let arguments = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &arguments);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The text of the page, once it has all of `words`.
    ///
    /// # Panics
    /// It does not have them in time.
    pub fn wait_for(&mut self, words: &[&str]) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            let text = self.evaluate("document.body?.innerText ?? ''").as_str().unwrap_or_default().to_owned();
            if words.iter().all(|word| text.contains(word)) {
                return text;
            }
            assert!(Instant::now() < end, "the page has not all of {words:?}: {text}\nerrors: {:?}", self.errors);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Looks at the page in a dark or a light theme, on a phone or a wide screen.
    pub fn emulate(&mut self, is_dark: bool, is_phone: bool) {
        let theme = if is_dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": theme}]}),
        );
        let (width, height) = if is_phone { (390, 844) } else { (1280, 900) };
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// The page as a PNG.
    ///
    /// # Panics
    /// The browser sends no picture.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let text = picture["data"].as_str().expect("a picture");
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).expect("base64")
    }

    /// Presses and releases a key, as `Tab` or `Enter`.
    pub fn press(&mut self, key: &str) {
        let codes = HashMap::from([("Tab", 9), ("Enter", 13)]);
        let code = codes.get(key).copied().unwrap_or_default();
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Cookies of all sites, with those that scripts cannot read.
    pub fn cookies(&mut self) -> Vec<Value> {
        self.call("Network.getAllCookies", &json!({}))["cookies"].as_array().cloned().unwrap_or_default()
    }

    /// Counts from now on the bytes that the page receives.
    pub fn count_bytes(&mut self) {
        self.call("Network.enable", &json!({}));
        self.received = 0;
    }

    /// Bytes since then, as they came over the network.
    pub fn received_bytes(&mut self) -> u64 {
        self.evaluate("0");
        self.received
    }

    /// Errors of the page so far.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Calls a method of the protocol and returns its result.
    fn call(&mut self, method: &str, arguments: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({"id": self.last_id, "method": method, "params": arguments});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser reads");
        let end = Instant::now() + DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).unwrap_or_else(|_| panic!("{method} was not answered"));
            if message["id"] == json!(self.last_id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    /// Keeps an event that is an error of the page.
    fn note(&mut self, event: &Value) {
        let details = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(details["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if details["entry"]["level"] == "error" => {
                self.errors.push(details["entry"].to_string());
            }
            Some("Network.dataReceived") => self.received += details["encodedDataLength"].as_u64().unwrap_or_default(),
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its processes end with the pipe.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}
