//! Proofs of frames: a binary tree over the frames of a piece, whose root is bound by the hash of the piece.
//!
//! A node has two hashes: of the stored bytes below it with the contents that are said to be in them, and of
//! these contents alone. Publishers of later versions know contents, and not stored bytes. A node without a
//! neighbour is the node above it, too. So a proof has one neighbour a level at most, each with both hashes.

use super::hash::Hash;
use super::layout::{frame, neighbour};
use super::words::{Bad, CUT_OFF, Input, append};

/// The place of a frame among those of its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FramePlace {
    pub(crate) number: u8,
    /// Number of the frames of the piece.
    pub(crate) count: u8,
}

/// A place in the tree: the level, 0 for frames, and the number among the nodes of the level.
pub(crate) type TreePlace = (u32, u32);

impl FramePlace {
    /// The nodes that a proof has, from the frame up: the neighbours of the frame and of those above it.
    fn neighbours(self) -> impl Iterator<Item = TreePlace> {
        let (number, count) = (u32::from(self.number), u32::from(self.count));
        let levels = count.next_power_of_two().trailing_zeros();
        (0..levels)
            .map(move |level| (level, number >> level ^ 1))
            .filter(move |(level, index)| index << level < count)
    }

    /// Bytes of the proof.
    pub(crate) fn proof_bytes(self) -> u32 {
        (frame::SIZE + self.neighbours().count() * neighbour::SIZE) as u32
    }
}

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Of a frame the hash of its stored bytes, of others the hash of the four hashes of both nodes below.
    pub(crate) hash: Hash,
    /// Of a frame the hash of the hashes of its blocks, of others the hash of both contents below.
    pub(crate) content: Hash,
}

impl Node {
    fn above(left: &Node, right: &Node) -> Node {
        Node {
            hash: Hash::of_hashes([left.hash, left.content, right.hash, right.content].iter()),
            content: Hash::of_hashes([left.content, right.content].iter()),
        }
    }

    /// The hash of the piece with this root.
    fn seal(&self) -> Hash {
        Hash::of_hashes([self.hash, self.content].iter())
    }
}

/// The content of a node by those below it; `None` where there is nothing.
pub(crate) fn content_above(left: Option<Hash>, right: Option<Hash>) -> Option<Hash> {
    match (left, right) {
        (Some(left), Some(right)) => Some(Hash::of_hashes([left, right].iter())),
        (left, right) => left.or(right),
    }
}

/// The tree of a piece, level by level.
pub(crate) struct Tree(Vec<Vec<Node>>);

impl Tree {
    /// Makes the tree over some frames.
    pub(crate) fn over(frames: Vec<Node>) -> Tree {
        let mut levels = vec![frames];
        while let Some(last) = levels.last().filter(|last| last.len() > 1) {
            let above = |nodes: &[Node]| match nodes {
                [left, right] => Node::above(left, right),
                nodes => nodes[0],
            };
            levels.push(last.chunks(2).map(above).collect());
        }
        Tree(levels)
    }

    /// The hash of the piece; `None` of one without frames.
    pub(crate) fn hash(&self) -> Option<Hash> {
        self.0.last()?.first().map(Node::seal)
    }

    /// The proof of a frame.
    pub(crate) fn proof(&self, number: usize) -> Vec<u8> {
        let frames = &self.0[0];
        let mut bytes = Vec::new();
        append(&mut bytes, frame::SIZE, |head| frames[number].content.write(frame::CONTENT, head));
        let place = FramePlace { number: number as u8, count: frames.len() as u8 };
        for (level, index) in place.neighbours() {
            let node = &self.0[level as usize][index as usize];
            append(&mut bytes, neighbour::SIZE, |entry| {
                node.hash.write(neighbour::HASH, entry);
                node.content.write(neighbour::CONTENT, entry);
            });
        }
        bytes
    }
}

/// The proof of a frame.
pub(crate) struct Proof {
    /// The content that the frame is said to have.
    pub(crate) content: Hash,
    neighbours: Vec<(TreePlace, Node)>,
}

impl Proof {
    /// Takes the proof from the stored bytes of a frame.
    pub(crate) fn take(place: FramePlace, input: &mut Input<'_>) -> Result<Proof, Bad> {
        let content = Hash::read(frame::CONTENT, input.take(frame::SIZE)?).ok_or(CUT_OFF)?;
        let mut neighbours = Vec::new();
        for at in place.neighbours() {
            let entry = input.take(neighbour::SIZE)?;
            let hash = Hash::read(neighbour::HASH, entry).ok_or(CUT_OFF)?;
            let content = Hash::read(neighbour::CONTENT, entry).ok_or(CUT_OFF)?;
            neighbours.push((at, Node { hash, content }));
        }
        Ok(Proof { content, neighbours })
    }

    /// The hash of the piece that has these stored bytes as the frame of the proof.
    pub(crate) fn hash_of_piece(&self, stored: &[u8]) -> Hash {
        let frame = Node { hash: Hash::of(stored), content: self.content };
        let above = |node: Node, ((_, index), neighbour): &(TreePlace, Node)| match index % 2 {
            0 => Node::above(neighbour, &node),
            _ => Node::above(&node, neighbour),
        };
        self.neighbours.iter().fold(frame, above).seal()
    }

    /// The contents of the neighbours.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (TreePlace, Hash)> {
        self.neighbours.iter().map(|(at, node)| (*at, node.content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(count: u8) -> Vec<Node> {
        (0..count).map(|at| Node { hash: Hash::of(&[at]), content: Hash::of(&[at, 1]) }).collect()
    }

    #[test]
    fn each_frame_leads_to_the_hash_of_its_piece_from_its_own_place_alone() {
        for count in 1..=16u8 {
            let tree = Tree::over(frames(count));
            for number in 0..count {
                let place = FramePlace { number, count };
                let bytes = tree.proof(number.into());
                assert_eq!(bytes.len(), place.proof_bytes() as usize);
                let mut input = Input(&bytes);
                let proof = Proof::take(place, &mut input).expect("a proof");
                assert!(input.end().is_ok());
                assert_eq!(Some(proof.hash_of_piece(&[number])), tree.hash());
                assert_ne!(Some(proof.hash_of_piece(&[number ^ 1])), tree.hash(), "another frame");
                for at in 0..bytes.len() {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= 1;
                    let lie = Proof::take(place, &mut Input(&bytes)).expect("a proof");
                    assert_ne!(Some(lie.hash_of_piece(&[number])), tree.hash(), "{at} of {place:?}");
                }
                for other in (0..count).filter(|other| *other != number) {
                    let place = FramePlace { number: other, count };
                    let elsewhere = Proof::take(place, &mut Input(&bytes));
                    let hash = elsewhere.ok().map(|proof| proof.hash_of_piece(&[number]));
                    assert!(hash.is_none() || hash != tree.hash(), "{number} as {other} of {count}");
                }
            }
        }
    }

    #[test]
    fn a_node_has_both_hashes_of_both_nodes_below_in_their_order() {
        let frames = frames(3);
        let (a, b, c) = (frames[0], frames[1], frames[2]);
        let all = |parts: &[Hash]| Hash::of(&parts.iter().flat_map(|hash| hash.0).collect::<Vec<u8>>());
        let (hash, content) = (all(&[a.hash, a.content, b.hash, b.content]), all(&[a.content, b.content]));
        let root = [all(&[hash, content, c.hash, c.content]), all(&[content, c.content])];
        assert_eq!(Tree::over(frames).hash(), Some(all(&root)));
    }

    #[test]
    fn proofs_are_short() {
        let bytes = |number, count| FramePlace { number, count }.proof_bytes();
        assert_eq!(
            [(0, 1), (0, 2), (5, 8), (9, 16)].map(|(number, count)| bytes(number, count)),
            [32, 96, 224, 288]
        );
        assert_eq!(bytes(4, 5), 96, "one that is alone on two levels");
    }
}
