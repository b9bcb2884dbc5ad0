//! The elements of an SVG document, as text.

use super::squarify::Rect;
use std::fmt::{Display, Write};

/// A document that is being written.
#[derive(Default)]
pub(super) struct Svg {
    text: String,
}

impl Svg {
    /// Begins a document of this size.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut svg = Svg::default();
        svg.text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let view = format!("0 0 {width:.0} {height:.0}");
        svg.begin(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("width", &format!("{width:.0}")),
                ("height", &format!("{height:.0}")),
                ("viewBox", &view),
            ],
        );
        svg
    }

    /// Begins an element.
    pub(super) fn begin(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.tag(name, attributes);
        self.text.push_str(">\n");
    }

    /// Ends the element that began last.
    pub(super) fn end(&mut self, name: &str) {
        let _ = writeln!(self.text, "</{name}>");
    }

    /// Adds an element without content.
    pub(super) fn empty(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.tag(name, attributes);
        self.text.push_str("/>\n");
    }

    /// Adds an element with text.
    pub(super) fn text(&mut self, name: &str, attributes: &[(&str, &dyn Display)], text: &str) {
        self.tag(name, attributes);
        self.text.push('>');
        push_escaped(&mut self.text, text);
        self.end(name);
    }

    /// Adds a rectangle, with a title for a pointer on it if there is one.
    pub(super) fn rect(&mut self, at: Rect, attributes: &[(&str, &dyn Display)], title: &str) {
        // Edges are rounded, not sizes, so that neighbours touch.
        let round = |edge: f64| (edge * 100.0).round() / 100.0;
        let (x, y) = (round(at.x), round(at.y));
        let (width, height) = (round(at.x + at.width) - x, round(at.y + at.height) - y);
        let numbers = [x, y, width, height].map(|number| format!("{number:.2}"));
        let own: [(&str, &dyn Display); 4] =
            [("x", &numbers[0]), ("y", &numbers[1]), ("width", &numbers[2]), ("height", &numbers[3])];
        let all = [&own[..], attributes].concat();
        match title {
            "" => self.empty("rect", &all),
            title => {
                self.begin("rect", &all);
                self.text("title", &[], title);
                self.end("rect");
            }
        }
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        let _ = write!(self.text, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.text, " {key}=\"");
            push_escaped(&mut self.text, &value.to_string());
            self.text.push('"');
        }
    }

    /// Ends the document.
    pub(super) fn finish(mut self) -> String {
        self.end("svg");
        self.text
    }
}

/// Appends text with XML's references in place of its own characters. Characters that no document may have,
/// which [`escape`](crate::text::escape::escape) leaves in names, become `\xNN` for each byte.
fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push(c),
            '\0'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut svg = Svg::new(10.0, 20.0);
        svg.text("text", &[("x", &1.5), ("class", &"a\"<&>")], "<b> & \"c\" \u{1}\u{ffff}é");
        svg.begin("g", &[]);
        svg.empty("rect", &[]);
        svg.end("g");
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
            <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"20\" viewBox=\"0 0 10 20\">\n\
            <text x=\"1.5\" class=\"a&quot;&lt;&amp;&gt;\">&lt;b&gt; &amp; &quot;c&quot; \\x01\\xef\\xbf\\xbfé\
            </text>\n<g>\n<rect/>\n</g>\n</svg>\n";
        assert_eq!(svg.finish(), expected);
    }
}
