//! Blocks of code of a page in Markdown, and the comments that tell how they run.
//!
//! Comments before a block, which a reader of the rendered page does not see:
//!
//! * `<!-- first: COMMANDS -->` runs before the block, and makes what the block takes for granted;
//! * `<!-- not run: REASON -->` leaves the block out;
//! * ``<!-- not run, `COMMAND`: REASON -->`` leaves out the one line that begins so.

/// A block of code.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Block {
    /// Number of the line that opens it.
    pub(crate) line: usize,
    /// The word after the fence: `sh`, `console`, ...
    pub(crate) language: String,
    pub(crate) code: String,
    /// Commands to run before it.
    pub(crate) first: String,
    /// The reason why it does not run.
    pub(crate) not_run: Option<String>,
    /// Lines that do not run: beginning and reason.
    pub(crate) lines_not_run: Vec<(String, String)>,
}

impl Block {
    /// Takes the text of a comment. Any other comment is not for the runner.
    fn take_comment(&mut self, text: &str) {
        let text = text.trim();
        if let Some(commands) = text.strip_prefix("first:") {
            self.first.push_str(commands.trim());
            self.first.push('\n');
        } else if let Some(reason) = text.strip_prefix("not run:") {
            self.not_run = Some(reason.trim().to_string());
        } else if let Some(line) = text.strip_prefix("not run, `") {
            let (command, reason) = line.split_once("`:").expect("not run, `COMMAND`: REASON");
            self.lines_not_run.push((command.to_string(), reason.trim().to_string()));
        }
    }

    /// The commands of a block of shell, without those that do not run.
    ///
    /// # Panics
    /// A comment leaves out a line that the block has not, or has twice.
    pub(crate) fn commands(&self) -> String {
        let mut lines: Vec<&str> = self.code.lines().collect();
        for (command, _) in &self.lines_not_run {
            let before = lines.len();
            lines.retain(|line| !line.starts_with(command.as_str()));
            assert_eq!(before - lines.len(), 1, "lines that begin with {command:?} in line {}", self.line);
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The sessions of a block of `console`: each command after `$`, and the output that follows it.
    pub(crate) fn sessions(&self) -> Vec<(String, String)> {
        let mut sessions: Vec<(String, String)> = Vec::new();
        for line in self.code.lines() {
            match (line.strip_prefix("$ "), sessions.last_mut()) {
                (Some(command), _) => sessions.push((command.to_string(), String::new())),
                (None, Some((_, output))) => output.extend([line, "\n"]),
                (None, None) => panic!("line {} begins with output", self.line),
            }
        }
        sessions
    }
}

/// The blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut next = Block::default();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start();
        if let Some(start) = line.strip_prefix("<!--") {
            let mut comment = format!("{start}\n");
            while !comment.contains("-->") {
                let (_, line) = lines.next().expect("the comment ends");
                comment.extend([line, "\n"]);
            }
            next.take_comment(comment.split("-->").next().unwrap_or_default());
        } else if let Some(language) = line.strip_prefix("```") {
            next.line = number + 1;
            next.language = language.to_string();
            for (_, line) in lines.by_ref().take_while(|(_, line)| !line.trim_start().starts_with("```")) {
                next.code.extend([line, "\n"]);
            }
            blocks.push(std::mem::take(&mut next));
        } else if !line.is_empty() {
            // A comment belongs to the block that follows at once.
            next = Block::default();
        }
    }
    blocks
}

/// Whether a command printed what the page says. A line `...` stands for any number of lines.
pub(crate) fn is_output(said: &str, printed: &str) -> bool {
    fn matches(said: &[&str], printed: &[&str]) -> bool {
        match said {
            [] => printed.is_empty(),
            ["...", rest @ ..] => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
            [line, rest @ ..] => printed.first() == Some(line) && matches(rest, &printed[1..]),
        }
    }
    matches(&Vec::from_iter(said.lines()), &Vec::from_iter(printed.lines()))
}

#[test]
fn a_page_is_read_with_its_comments() {
    let page = "text\n<!-- first: a\nb -->\n<!-- not run, `x y`: why -->\n```sh\nx y z\nc\n```\n\
                <!-- not run: it burns -->\n\n```console\n$ d\n1\n...\n$ e\n```\n<!-- first: lost -->\ntext\n```sh\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 3);
    assert_eq!((found[0].line, found[0].first.as_str(), found[0].commands().as_str()), (5, "a\nb\n", "c\n"));
    assert_eq!(found[0].lines_not_run, [("x y".to_string(), "why".to_string())]);
    assert_eq!(found[1].not_run.as_deref(), Some("it burns"));
    assert_eq!(found[1].sessions(), [("d".into(), "1\n...\n".into()), ("e".into(), String::new())]);
    assert_eq!((found[2].first.as_str(), found[2].line), ("", 19));
}

#[test]
fn output_is_compared_line_by_line() {
    assert!(is_output("a\n...\nc\n", "a\nb\nb\nc\n") && is_output("a\n...\n", "a\n") && is_output("", ""));
    assert!(!is_output("a\n", "a\nb\n") && !is_output("a\n...\nc\n", "a\nb\n") && !is_output("a\n", ""));
}
