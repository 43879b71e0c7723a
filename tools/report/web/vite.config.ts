import { defineConfig, type Plugin } from 'vite';

/// One file: the bundle and the style go into the HTML, which then works from file:// (modules loaded by URL do not).
function inlined(): Plugin {
  return {
    name: 'cuheap-inlined',
    enforce: 'post',
    generateBundle(_options, bundle) {
      const html = bundle['index.html'];
      if (html?.type !== 'asset') throw new Error('no index.html in the bundle');
      let page = String(html.source);
      page = page.replace(/\s*<script type="module"[^>]*><\/script>/, '').replace(/\s*<link rel="stylesheet"[^>]*>/, '');
      for (const [name, piece] of Object.entries(bundle)) {
        if (piece.type === 'chunk') {
          // After the data: the script runs once everything it reads is parsed.
          const code = piece.code.replaceAll('</script', '<\\/script');
          page = page.replace('</body>', () => `<script type="module">${code}</script>\n</body>`);
        } else if (name.endsWith('.css')) {
          page = page.replace('</head>', () => `<style>${String(piece.source)}</style>\n</head>`);
        } else continue;
        delete bundle[name];
      }
      html.source = page;
    },
  };
}

export default defineConfig({
  plugins: [inlined()],
  build: {
    outDir: process.env.CUHEAP_PAGE_OUT ?? 'dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
  },
  logLevel: 'warn',
});
