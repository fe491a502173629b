//! The OpenAPI document as JSON, and as an HTML page without scripts.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::Value;
use utoipa::openapi::{OpenApi, Server};

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>Oncebox</title><style>\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
code,pre{font-family:ui-monospace,monospace;font-size:.9em}section{border-top:1px solid #8886;padding:.5rem 0}\
h3{margin:.5rem 0}.method{display:inline-block;min-width:3.5rem;font-weight:bold}table{border-collapse:collapse}\
td,th{text-align:left;padding:.1rem .8rem .1rem 0;vertical-align:top}</style></head><body>";

/// The document and the page of a listener; rendered once.
pub(super) struct Documents {
    pub(super) json: Bytes,
    pub(super) page: Bytes,
}

impl Documents {
    pub(super) fn new(mut document: OpenApi) -> Self {
        // A client that reads the document has reached the server by some URL, which is the one to use.
        document.servers = Some(vec![Server::new("/")]);
        let json = document.to_pretty_json().unwrap_or_default() + "\n";
        Self { json: json.into(), page: render(&document).into() }
    }
}

fn render(document: &OpenApi) -> String {
    let document = serde_json::to_value(document).unwrap_or_default();
    let mut page = String::from(HEAD);
    let _ = write!(
        page,
        "<h1>{}</h1><p>{}</p><p>OpenAPI document: <a href=\"/openapi.json\">/openapi.json</a>.</p>",
        text(&document["info"]["title"]),
        text(&document["info"]["description"])
    );
    for (path, item) in entries(&document["paths"]) {
        for (method, operation) in entries(item) {
            put_operation(&mut page, path, method, operation);
        }
    }
    page.push_str("<h2>Schemas</h2>");
    for (name, schema) in entries(&document["components"]["schemas"]) {
        let json = serde_json::to_string_pretty(schema).unwrap_or_default();
        let _ = write!(
            page,
            "<section id=\"{0}\"><h3>{0}</h3><pre>{1}</pre></section>",
            escape(name),
            escape(&json)
        );
    }
    page.push_str("</body></html>\n");
    page
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn put_operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        page,
        "<section><h3><span class=\"method\">{}</span> <code>{}</code></h3><p>{} {}</p><table>",
        escape(&method.to_uppercase()),
        escape(path),
        text(&operation["summary"]),
        text(&operation["description"])
    );
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (name, about) = (text(&parameter["name"]), text(&parameter["description"]));
        let _ = write!(page, "<tr><td><code>{name}</code></td><td>{about}</td></tr>");
    }
    page.push_str("</table>");
    for (label, body) in
        [("Request:", &operation["requestBody"]), ("Response:", &operation["responses"]["200"])]
    {
        let schemas = entries(&body["content"]).filter_map(|(_, content)| content["schema"]["$ref"].as_str());
        for name in schemas.filter_map(|reference| reference.rsplit('/').next()) {
            let _ = write!(page, "<p>{label} <a href=\"#{0}\">{0}</a></p>", escape(name));
        }
    }
    page.push_str("</section>");
}

fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
