/*
 * Copies the tree, as git sees it (committed and new files, nothing ignored), into a folder of its own, so that a guard
 * can be removed or a breach planted there. node_modules is a link. The caller removes the folder.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

export const root = resolve(import.meta.dirname, '..');

/** Paths relative to the root. Files that are listed but gone (deleted, not committed) are left out. */
export function treeFiles(): string[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: root });
  return [...new Set(listed.toString('utf8').split('\0'))].filter(
    (file) => file !== '' && existsSync(join(root, file)),
  );
}

/** A fresh copy that anybody may enter, so that an embedded PostgreSQL under another user can work in it. */
export function copyTree(label: string): string {
  const target = mkdtempSync(join(tmpdir(), `payonce-${label}-`));
  for (const file of treeFiles()) {
    mkdirSync(dirname(join(target, file)), { recursive: true });
    cpSync(join(root, file), join(target, file), { verbatimSymlinks: true });
  }
  symlinkSync(join(root, 'node_modules'), join(target, 'node_modules'));
  return target;
}
