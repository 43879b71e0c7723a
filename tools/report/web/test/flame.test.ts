import { expect, test } from 'vitest';
import { FlameTree, kNoStack, kOther } from '../src/maths/flame';
import { Names } from '../src/names';
import { namesSection } from './encode';

const kRuntime = (3 << 1) | 1;
const kStacks = [['start', 'main', 'load'], ['start', 'main', 'step', 'interp', 'mlp'], ['start', 'main', 'step', 'interp', 'attention']];

function tree(folded: boolean): { tree: FlameTree; names: Names } {
  const { names: section, nodes } = namesSection(kStacks, { start: kRuntime, interp: kRuntime });
  const names = new Names(section);
  const made = new FlameTree(names, nodes, folded);
  made.fill([60, 30, 10]);
  return { tree: made, names };
}

function texts({ tree: made, names }: { tree: FlameTree; names: Names }): string[] {
  return made.layout(0, 0).map(({ node, depth }) => `${depth} ${made.nodes[node]!.frame < 0 ? 'all' : names.frame(made.nodes[node]!.frame).function} ${made.nodes[node]!.value}`);
}

test('a frame is as wide as everything below it', () => {
  expect(texts(tree(false))).toEqual([
    '0 all 100', '1 start 100', '2 main 100', '3 load 60', '3 step 40', '4 interp 40', '5 mlp 30', '5 attention 10']);
});

test('folding takes runtime frames out and loses no byte', () => {
  expect(texts(tree(true))).toEqual(['0 all 100', '1 main 100', '2 load 60', '2 step 40', '3 mlp 30', '3 attention 10']);
});

test('bytes without a site of their own are a cell of their own', () => {
  const { tree: made } = tree(true);
  made.fill([60, 30, 10], 25);
  expect(made.nodes[0]!.value).toBe(125);
  expect(made.layout(0, 0).find(({ node }) => made.nodes[node]!.frame === kOther)!.width).toBe(0.2);
});

test('bytes without a stack are a cell of their own', () => {
  const { names: section, nodes } = namesSection(kStacks);
  const made = new FlameTree(new Names(section), [...nodes, 0], true);
  made.fill([1, 1, 1, 7]);
  expect(made.layout(0, 0).find(({ node }) => made.nodes[node]!.frame === kNoStack)!.width).toBe(0.7);
});

test('a search counts each byte once', () => {
  const { tree: made } = tree(true);
  expect(made.search('step').sum).toBe(40);
  expect(made.search('m').sum).toBe(100);    // main holds mlp: not 130
  expect(made.search('nothing').hits.size).toBe(0);
});

test('a zoomed frame fills the width and keeps its ancestors above', () => {
  const { tree: made, names } = tree(true);
  const step = made.nodes.findIndex(({ frame }) => frame >= 0 && names.frame(frame).function === 'step');
  const cells = made.layout(step, 0);
  expect(cells.slice(0, 3).every(({ width }) => width === 1)).toBe(true);
  expect(cells.find(({ node }) => node === made.nodes[step]!.children[0])!.width).toBe(0.75);
});

test('cells too small to see are left out', () => {
  expect(tree(true).tree.layout(0, 0.2).some(({ width }) => width < 0.2)).toBe(false);
});
