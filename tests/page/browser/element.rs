//! What is on a page, by its role and its name.

use serde_json::{Value, json};

use super::Page;

/// An element of the page that is shown.
#[derive(Debug, Clone, Copy)]
pub struct Element {
    /// The browser's number of it.
    node: i64,
}

impl Page {
    /// Everything with this role and name, in the order of the document; with an empty name everything with this role.
    pub async fn all(&self, role: &str, name: &str) -> Result<Vec<Element>, String> {
        let root = self.cdp("DOM.getDocument", json!({"depth": 0})).await?;
        let mut query = json!({"nodeId": root["root"]["nodeId"], "role": role});
        if !name.is_empty() {
            query["accessibleName"] = name.into();
        }
        let found = self.cdp("Accessibility.queryAXTree", query).await?;
        let shown = |node: &&Value| node["ignored"] == false;
        let nodes = found["nodes"].as_array().into_iter().flatten().filter(shown);
        Ok(nodes.filter_map(|node| Some(Element { node: node["backendDOMNodeId"].as_i64()? })).collect())
    }

    /// Waits for the one element with this role and name.
    pub async fn find(&self, role: &str, name: &str) -> Element {
        self.until(&format!("one {role} named {name:?}"), async || self.one(role, name).await).await
    }

    async fn one(&self, role: &str, name: &str) -> Result<Option<Element>, String> {
        let all = self.all(role, name).await?;
        match all[..] {
            [one] => Ok(Some(one)),
            [] => Ok(None),
            _ => Err(format!("there are {}", all.len())),
        }
    }

    /// Waits until there is none any more.
    pub async fn gone(&self, role: &str, name: &str) {
        let look = async || Ok(self.all(role, name).await?.is_empty().then_some(()));
        self.until(&format!("no {role} named {name:?}"), look).await;
    }

    /// Clicks what has this role and name, as a pointer does: where it is seen, unless something covers it.
    pub async fn click(&self, role: &str, name: &str) {
        self.clicks(role, name, 1).await;
    }

    /// Clicks so many times in a row, without a wait between.
    pub async fn clicks(&self, role: &str, name: &str, times: u32) {
        let what = format!("{role} named {name:?} to click");
        let (x, y) = self
            .until(&what, async || match self.one(role, name).await? {
                Some(element) => self.place(element).await.map(Some),
                None => Ok(None),
            })
            .await;
        for count in 1..=times {
            for kind in ["mousePressed", "mouseReleased"] {
                let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": count});
                self.cdp("Input.dispatchMouseEvent", event).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            }
        }
    }

    /// Where it is seen. An error: it isn't, or lies below something else.
    async fn place(&self, element: Element) -> Result<(f64, f64), String> {
        let node = json!({"backendNodeId": element.node});
        self.cdp("DOM.scrollIntoViewIfNeeded", node.clone()).await?;
        let quads = self.cdp("DOM.getContentQuads", node).await?;
        let corners: Vec<f64> =
            quads["quads"][0].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        let [x0, y0, _, _, x2, y2, _, _] = corners[..] else { return Err(format!("no place: {quads}")) };
        let (x, y) = (f64::midpoint(x0, x2), f64::midpoint(y0, y2));
        let hit = format!(
            "function() {{ const hit = document.elementFromPoint({x}, {y}); \
             return hit !== null && (this.contains(hit) || hit.contains(this)) ? '' : hit?.outerHTML ?? 'nothing'; }}"
        );
        match self.on(element, &hit).await?.as_str() {
            Some("") => Ok((x, y)),
            other => Err(format!("{} lies above it", other.unwrap_or_default())),
        }
    }

    /// The value of a function of the element, which is its `this`.
    pub async fn on(&self, element: Element, function: &str) -> Result<Value, String> {
        let object = self.cdp("DOM.resolveNode", json!({"backendNodeId": element.node})).await?;
        let parameters = json!({"objectId": object["object"]["objectId"], "functionDeclaration": function, "returnByValue": true});
        super::valued(&self.cdp("Runtime.callFunctionOn", parameters).await?)
    }

    /// What can be read in it.
    pub async fn text_of(&self, role: &str, name: &str) -> String {
        let element = self.find(role, name).await;
        let text = self.on(element, "function() { return this.innerText; }").await;
        text.unwrap_or_else(|e| panic!("{e}")).as_str().unwrap().to_owned()
    }

    /// Writes into a field, by its label, in place of what is there.
    pub async fn fill(&self, label: &str, text: &str) {
        self.fill_in("textbox", label, text).await;
    }

    /// The same for what is no text box.
    pub async fn fill_in(&self, role: &str, label: &str, text: &str) {
        let field = self.find(role, label).await;
        self.on(field, "function() { this.focus(); this.select(); }").await.unwrap_or_else(|e| panic!("{e}"));
        if text.is_empty() {
            self.on(field, "function() { this.value = ''; }").await.unwrap_or_else(|e| panic!("{e}"));
        } else {
            self.cdp("Input.insertText", json!({"text": text})).await.unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// Role and name of what has the focus: `button "Approve"`.
    pub async fn focus(&self) -> String {
        let object =
            self.cdp("Runtime.evaluate", json!({"expression": "document.activeElement"})).await.unwrap();
        let query = json!({"objectId": object["result"]["objectId"], "fetchRelatives": false});
        let tree = self.cdp("Accessibility.getPartialAXTree", query).await.unwrap();
        let node = &tree["nodes"][0];
        let part = |part: &str| node[part]["value"].as_str().unwrap_or_default().to_owned();
        format!("{} {:?}", part("role"), part("name"))
    }

    /// Role and name of everything that Tab reaches, from the beginning of the page until it begins again.
    pub async fn tab_stops(&self) -> Vec<String> {
        self.evaluate(
            "document.activeElement?.blur(); document.body.tabIndex = -1; document.body.focus(); \
             document.body.removeAttribute('tabindex')",
        )
        .await
        .unwrap();
        let mut stops = Vec::new();
        for _ in 0..MOST_STOPS {
            self.press(super::keys::Key::Tab).await;
            let is_out = self
                .evaluate("document.activeElement === document.body || document.activeElement === null")
                .await;
            if is_out.unwrap() == true || (!stops.is_empty() && self.is_first_stop().await) {
                return stops;
            }
            if stops.is_empty() {
                self.evaluate("document.firstStop = document.activeElement").await.unwrap();
            }
            stops.push(self.focus().await);
        }
        panic!("more than {MOST_STOPS} stops, or Tab doesn't come around: {stops:#?}");
    }

    async fn is_first_stop(&self) -> bool {
        self.evaluate("document.firstStop === document.activeElement").await.unwrap() == true
    }
}

/// Of a page of a test.
const MOST_STOPS: usize = 400;
