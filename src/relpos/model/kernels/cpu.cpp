// Sweeps over the activations of a training step on a CPU: attention with position terms, dropout + add + layer norm, bias + GELU,
// cross-entropy, the gradient of a depthwise convolution.
//
// Built on the machine that uses it (library.py) and called through ctypes with plain pointers, so that no header of torch is needed.
// Numbers are stored as float or bfloat16; all arithmetic is in float. Every sum has an order that does not depend on the number of
// threads, so that two runs give the same bits.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define OWN_PRODUCTS 1
#else
#define OWN_PRODUCTS 0
#endif
// PRODUCTS_IN_FLOAT: this processor multiplies bfloat16 no faster (rate.py).
#if OWN_PRODUCTS && defined(__AVX512BF16__) && !defined(__AMX_BF16__) && !defined(PRODUCTS_IN_FLOAT)
#define OWN_PRODUCTS_OF_BFLOAT16 1
#else
#define OWN_PRODUCTS_OF_BFLOAT16 0
#endif
#if OWN_PRODUCTS && defined(PRODUCTS_IN_FLOAT)
#define PRODUCTS_OF_BFLOAT16_IN_FLOAT 1
#else
#define PRODUCTS_OF_BFLOAT16_IN_FLOAT 0
#endif

extern "C" {
// Both are exported by libtorch_cpu where torch is built with MKL.
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*, const float*,
            const int*, const float*, float*, const int*);
__attribute__((weak)) void cblas_gemm_bf16bf16f32(int, int, int, int, int, int, float, const uint16_t*, int, const uint16_t*, int,
                                                  float, float*, int);
}

namespace {

using std::int64_t;
struct bfloat16 {
  uint16_t bits;
};

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

inline float load(float x) { return x; }
inline float load(bfloat16 x) { return float_of(uint32_t(x.bits) << 16); }
inline void store(float& to, float x) { to = x; }
inline void store(bfloat16& to, float x) {  // to the nearest, ties to even; not a number stays that
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  to.bits = uint16_t(x == x ? rounded : 0x7FC0u);
}

// e^x to 2 units in the last place; 0 below -87. Cephes' polynomial. Written so that compilers vectorise it.
inline float exponential(float x) {
  const float magic = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, which then stands in the lowest bits
  const float bounded = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  const float shifted = bounded * 1.44269504088896341f + magic;
  const float whole = shifted - magic;
  const float rest = (bounded - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * rest + 1.3981999507e-3f;
  y = y * rest + 8.3334519073e-3f;
  y = y * rest + 4.1665795894e-2f;
  y = y * rest + 1.6666665459e-1f;
  y = y * rest + 5.0000001201e-1f;
  y = y * rest * rest + rest + 1.0f;
  y *= float_of((bits_of(shifted) - bits_of(magic) + 127u) << 23);
  return x < -87.0f ? 0.0f : x == x ? y : x;
}

float* scratch(int which, int64_t count) {
  static thread_local std::vector<float> buffers[30];
  auto& buffer = buffers[which];
  if (int64_t(buffer.size()) < count) buffer.resize(count);
  return buffer.data();
}

template <class T>
T* scratch_of(int which, int64_t count) {
  return reinterpret_cast<T*>(scratch(which, count));
}

// A row that is to be stored as T is computed in float where `in_float` says, and then narrowed: by one instruction for 32 numbers
// where the processor has it. A row of float is computed where it belongs, and otherwise copied there.
inline float* in_float(float* to, int, int64_t) { return to; }
inline float* in_float(bfloat16*, int which, int64_t count) { return scratch(which, count); }
inline void narrow(const float* from, float* to, int64_t count) {
  if (from != to) std::memcpy(to, from, count * sizeof(float));
}
inline void narrow(const float* from, bfloat16* to, int64_t count) {
  int64_t c = 0;
#if OWN_PRODUCTS && defined(__AVX512BF16__)
  for (; c + 32 <= count; c += 32)
    _mm512_storeu_si512(to + c, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + c + 16), _mm512_loadu_ps(from + c)));
  for (; c + 16 <= count; c += 16) _mm256_storeu_si256((__m256i*)(to + c), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + c)));
#endif
#pragma omp simd
  for (int64_t rest = c; rest < count; ++rest) store(to[rest], from[rest]);
}

// Numbers of a vector. Loops over rows that are filled up to whole vectors have no scalar rest.
constexpr int64_t LANES = 16;
inline int64_t whole(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

// As it would be stored as T.
template <class T>
inline void round_to(float* x, int64_t count) {
  for (int64_t c = 0; c < count; ++c) {
    T stored;
    store(stored, x[c]);
    x[c] = load(stored);
  }
}

// Where x is positive, else 0.
inline float positive(float x) { return x > 0.0f ? x : 0.0f; }
inline bfloat16 positive(bfloat16 x) { return {uint16_t(x.bits & 0x8000u ? 0u : x.bits)}; }

// C (m, n) = alpha op(A) op(B) + beta C, all row-major, by MKL.
inline void by_mkl(bool ta, bool tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c,
                   int ldc) {
  sgemm_(tb ? "T" : "N", ta ? "T" : "N", &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);
}
inline void as_floats(const bfloat16* from, int64_t rows, int64_t columns, int64_t ld, float* to, int64_t to_ld) {
  for (int64_t r = 0; r < rows; ++r)
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c) to[r * to_ld + c] = load(from[r * ld + c]);
}
// The matrix as floats, without the gaps between its rows.
inline const float* widened(const bfloat16* from, int64_t rows, int64_t columns, int64_t ld, int which) {
  float* to = scratch(which, rows * columns);
  as_floats(from, rows, columns, ld, to, columns);
  return to;
}
// Whether MKL multiplies bfloat16 as floats: without instructions for bfloat16 it takes some ten times as long.
inline bool widens() {
#if defined(__AMX_BF16__) && !defined(PRODUCTS_IN_FLOAT)
  return !cblas_gemm_bf16bf16f32;
#else
  return true;
#endif
}

// Which products are our own, with AVX-512. On AMD's processors MKL uses neither its instructions for float, so that its products take
// 2.4 times as long as these, nor those for bfloat16, so that they take four times as long. Floats are added up in MKL's order. It
// multiplies matrices of few columns and single rows in other ways, and such are left to it.
template <class T>
constexpr bool OWN = sizeof(T) == sizeof(float) ? OWN_PRODUCTS : OWN_PRODUCTS_OF_BFLOAT16 || PRODUCTS_OF_BFLOAT16_IN_FLOAT;
// Whether the factors are widened, and multiplied as floats are.
template <class T>
constexpr bool IN_FLOAT = sizeof(T) != sizeof(float) && PRODUCTS_OF_BFLOAT16_IN_FLOAT;
template <class T>
inline bool own(int64_t m, int64_t n) {
  return OWN<T> && (sizeof(T) != sizeof(float) || (m > 1 && n > 8));
}

// alpha op(B) (k, n) of a product. For our own it lies in panels of 16 columns, which consist of words: a float, or two bfloat16 of a
// column, one below the other, which the instruction multiplies by two neighbours in a row of op(A) and adds up. From a row of words
// to the next it is `step` words, from a panel to the next `panel`.
template <class T>
struct Right {
  bool transposed;
  int64_t n, k;
  float alpha;
  const T* from;
  int64_t ld;
  float* wide;            // B as floats, where it is multiplied as floats; or null
  int64_t wide_ld;
  uint32_t* packed;       // the words, where they are a copy
  const uint32_t* words;  // null: MKL multiplies
  int64_t step, panel;
};


constexpr int TILE_ROWS = 6;  // of our own products; × 4 panels: 24 of 32 registers hold sums

#if OWN_PRODUCTS
template <class T>
constexpr int64_t DEPTH = sizeof(float) / sizeof(T);
template <class T>
inline int64_t words_of(int64_t k) {  // of an odd k the last one holds a zero
  return (k + DEPTH<T> - 1) / DEPTH<T>;
}

// The first of sixteen lanes; all where there are as many, which is the fast way.
inline __mmask16 lanes_of(int64_t count) { return count > 0 ? __mmask16((1u << count) - 1u) : __mmask16(0); }
inline void store_words(uint32_t* to, int64_t count, __m512i words) {
  if (count >= 16)
    _mm512_storeu_si512(to, words);
  else
    _mm512_mask_storeu_epi32(to, lanes_of(count), words);
}

// Sixteen words, zero from `count` on: numbers of a row, and those below them, which are `next` numbers further; 0: there are none.
inline __m512i words_below(const float* x, int64_t, float alpha, int64_t count) {
  const __m512 row = count >= 16 ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(lanes_of(count), x);
  return (__m512i)_mm512_mul_ps(row, _mm512_set1_ps(alpha));
}
inline __m512i halves_of(const bfloat16* x, int64_t count) {
  return _mm512_castsi256_si512(count >= 16 ? _mm256_loadu_si256((const __m256i*)x) : _mm256_maskz_loadu_epi16(lanes_of(count), x));
}
inline __m512i words_below(const bfloat16* x, int64_t next, float, int64_t count) {
  const __m512i in_turn = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,  //
                                           39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  return _mm512_permutex2var_epi16(halves_of(x, count), in_turn, next ? halves_of(x + next, count) : _mm512_setzero_si512());
}

// (k, …) row-major, of which columns first … first + n − 1 → rows of `stride` words, one a column, zero from n up to `room`. From sixteen
// columns to the next it is `panel` words.
template <class T>
void pack_rows(const T* from, int64_t ld, int64_t k, int64_t first, int64_t n, float alpha, uint32_t* to, int64_t stride, int64_t room,
               int64_t panel) {
  for (int64_t word = 0; word < words_of<T>(k); ++word) {
    const T* row = from + DEPTH<T> * word * ld + first;
    const int64_t next = DEPTH<T> * word + 1 < k ? ld : 0;
    uint32_t* words = to + word * stride;
    int64_t j = 0;
    for (; j + 16 <= n; j += 16, words += panel) store_words(words, 16, words_below(row + j, next, alpha, 16));
    for (; j < room; j += 16, words += panel) store_words(words, room - j, words_below(row + j, next, alpha, n - j));
  }
}

// 16 × 16 words transposed. Each step interleaves row i with row i + 8, which rotates the eight bits of a word's row and column by one.
inline void transpose(__m512i rows[16]) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  for (int bit = 0; bit < 4; ++bit) {
    __m512i next[16];
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = _mm512_permutex2var_epi32(rows[i], low, rows[i + 8]);
      next[2 * i + 1] = _mm512_permutex2var_epi32(rows[i], high, rows[i + 8]);
    }
    std::memcpy(rows, next, sizeof(next));
  }
}

// Sixteen words of one row, of which `count` numbers are left.
inline __m512i words_along(const float* x, int64_t count, float alpha) { return words_below(x, 0, alpha, count); }
inline __m512i words_along(const bfloat16* x, int64_t count, float) {
  return count >= 32 ? _mm512_loadu_si512(x) : _mm512_maskz_loadu_epi16(__mmask32((1u << count) - 1u), x);
}

// (…, k) row-major, of which rows first … first + n − 1 → the same of the transposed matrix.
template <class T>
void pack_columns(const T* from, int64_t ld, int64_t k, int64_t first, int64_t n, float alpha, uint32_t* to, int64_t stride) {
  for (int64_t word = 0; word < words_of<T>(k); word += 16)
    for (int64_t block = 0; block < stride; block += 16) {
      __m512i rows[16];
      for (int64_t j = 0; j < 16; ++j)
        rows[j] = block + j < n ? words_along(from + (first + block + j) * ld + word * DEPTH<T>, k - word * DEPTH<T>, alpha) : _mm512_setzero_si512();
      transpose(rows);
      for (int64_t j = 0; j < 16 && word + j < words_of<T>(k); ++j) store_words(to + (word + j) * stride + block, stride - block, rows[j]);
    }
}

inline __m512 spread(const float* a) { return _mm512_set1_ps(*a); }
inline __m512 add_products(__m512 sum, __m512 left, const uint32_t* right) { return _mm512_fmadd_ps(left, _mm512_loadu_ps(right), sum); }
#if OWN_PRODUCTS_OF_BFLOAT16
inline __m512bh spread(const bfloat16* a) {
  uint32_t word;
  std::memcpy(&word, a, 4);
  return (__m512bh)_mm512_set1_epi32(int(word));
}
inline __m512 add_products(__m512 sum, __m512bh left, const uint32_t* right) {
  return _mm512_dpbf16_ps(sum, left, (__m512bh)_mm512_loadu_si512(right));
}
#endif

// Where sums go, and what becomes of them: C = alpha sum + beta C.
struct InFloat {
  float* c;
  int64_t ld;
  float alpha, beta;
  InFloat at(int64_t row, int64_t column) const { return {c + row * ld + column, ld, alpha, beta}; }
  void put(__m512 sum, int64_t row, int64_t column, __mmask16 some) const {
    float* to = c + row * ld + column;
    sum = _mm512_mul_ps(sum, _mm512_set1_ps(alpha));
    if (beta != 0.0f) sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(some, to), _mm512_set1_ps(beta), sum);
    _mm512_mask_storeu_ps(to, some, sum);
  }
};
#if OWN_PRODUCTS_OF_BFLOAT16
// C = sum + bias + beside, as bfloat16.
struct InBfloat16 {
  const float* bias;
  const bfloat16* beside;
  bfloat16* c;
  int64_t ld;
  InBfloat16 at(int64_t row, int64_t column) const {
    return {bias ? bias + column : nullptr, beside ? beside + row * ld + column : nullptr, c + row * ld + column, ld};
  }
  void put(__m512 sum, int64_t row, int64_t column, __mmask16 some) const {
    const int64_t place = row * ld + column;
    __m512 more = bias ? _mm512_maskz_loadu_ps(some, bias + column) : _mm512_setzero_ps();
    if (beside)
      more = _mm512_add_ps(more, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, beside + place)), 16));
    if (bias || beside) sum = _mm512_add_ps(more, sum);
    _mm256_mask_storeu_epi16(c + place, some, (__m256i)_mm512_cvtneps_pbh(sum));
  }
};
#endif

// ROWS rows of C by PANELS panels, the last of which has the columns in `last`. Neighbours in a row of op(A) lie side by side; to the
// next row it is a_row numbers, to the next word a_word.
template <int ROWS, int PANELS, class T, class To>
void tile(int64_t words, const T* a, int64_t a_row, int64_t a_word, const uint32_t* b, int64_t step, int64_t panel, const To& to, __mmask16 last) {
  __m512 sums[ROWS][PANELS];
  for (int r = 0; r < ROWS; ++r)
    for (int p = 0; p < PANELS; ++p) sums[r][p] = _mm512_setzero_ps();
  for (int64_t word = 0; word < words; ++word)
    for (int r = 0; r < ROWS; ++r) {
      const auto left = spread(a + r * a_row + word * a_word);
      for (int p = 0; p < PANELS; ++p) sums[r][p] = add_products(sums[r][p], left, b + word * step + p * panel);
    }
  for (int r = 0; r < ROWS; ++r)
    for (int p = 0; p < PANELS; ++p) to.put(sums[r][p], r, p * 16, p == PANELS - 1 ? last : __mmask16(0xFFFF));
}

template <int PANELS, class T, class To>
void tiles(int64_t m, int64_t words, const T* a, int64_t a_row, int64_t a_word, const uint32_t* b, int64_t step, int64_t panel, const To& to,
           __mmask16 last) {
  int64_t i = 0;
  for (; i + TILE_ROWS <= m; i += TILE_ROWS)
    tile<TILE_ROWS, PANELS>(words, a + i * a_row, a_row, a_word, b, step, panel, to.at(i, 0), last);
  for (; i + 2 <= m; i += 2) tile<2, PANELS>(words, a + i * a_row, a_row, a_word, b, step, panel, to.at(i, 0), last);
  for (; i < m; ++i) tile<1, PANELS>(words, a + i * a_row, a_row, a_word, b, step, panel, to.at(i, 0), last);
}

// Sums of more than 192 floats are sums of such parts.
inline int64_t part_of(int64_t k) { return k <= 192 ? k : k < 384 ? k / 2 : 192; }

// The result of a part beside those before it.
inline InFloat added(InFloat to) { return {to.c, to.ld, to.alpha, 1.0f}; }
#if OWN_PRODUCTS_OF_BFLOAT16
inline InBfloat16 added(InBfloat16 to) { return to; }  // its sums have one part
#endif

template <class T, class To>
void multiply(bool ta, int64_t m, const T* a, int64_t lda, const Right<T>& right, const To& to, bool zero_behind) {
  const int64_t k = right.k, words = words_of<T>(k), panels = (right.n + 15) / 16;
  int64_t a_row = lda, a_word = DEPTH<T>;
  if (sizeof(T) == sizeof(float) && ta) {
    a_row = 1, a_word = lda;
  } else if (ta || (k % DEPTH<T> && !zero_behind)) {  // pairs of numbers that do not lie side by side
    uint32_t* left = scratch_of<uint32_t>(9, words * m);
    if (ta)
      pack_rows(a, lda, k, 0, m, 1.0f, left, m, m, 16);
    else
      pack_columns(a, lda, k, 0, m, 1.0f, left, m);
    a = reinterpret_cast<const T*>(left), a_row = DEPTH<T>, a_word = DEPTH<T> * m;
  }
  const int64_t part = sizeof(T) == sizeof(float) ? part_of(k) : words;
  for (int64_t p = 0; p < panels; p += 4) {
    const int64_t some = panels - p < 4 ? panels - p : 4, rest = right.n - (p + some - 1) * 16;
    const __mmask16 last = rest >= 16 ? __mmask16(0xFFFF) : __mmask16((1u << rest) - 1u);
    const auto run = some == 4 ? tiles<4, T, To> : some == 3 ? tiles<3, T, To> : some == 2 ? tiles<2, T, To> : tiles<1, T, To>;
    const To place = to.at(0, p * 16);
    int64_t word = 0;
    do {  // once of no words, too: their sum is zero
      run(m, words - word < part ? words - word : part, a + word * a_word, a_row, a_word, right.words + p * right.panel + word * right.step,
          right.step, right.panel, word ? added(place) : place, last);
      word += part;
    } while (word < words);
  }
}
#endif

// alpha op(B) with room for its panels, which `pack` fills.
template <class T>
Right<T> right_for(int which, bool transposed, int64_t n, int64_t k, float alpha, const T* b, int64_t ld) {
  Right<T> right{transposed, n, k, alpha, b, ld, nullptr, transposed ? k : n, nullptr, nullptr, 0, 0};
  if constexpr (sizeof(T) != sizeof(float) && (IN_FLOAT<T> || !OWN<T>))
    if (widens()) right.wide = scratch(which + 13, n * k);
#if OWN_PRODUCTS
  if (!(IN_FLOAT<T> ? own<float>(2, n) : own<T>(2, n))) return right;
  if (sizeof(T) == sizeof(float) && !transposed && alpha == 1.0f && n % 16 == 0) {
    right.words = reinterpret_cast<const uint32_t*>(b), right.step = ld, right.panel = 16;
    return right;
  }
  right.step = 16, right.panel = 16 * (IN_FLOAT<T> ? k : words_of<T>(k));
  right.words = right.packed = scratch_of<uint32_t>(which, (n + 15) / 16 * right.panel);
#endif
  return right;
}

constexpr int64_t PACKED = 64;  // columns that are packed together: of a row as many as are two lines of the cache

#if OWN_PRODUCTS
template <class T, class Words>
void pack_panels(const Right<Words>& right, const T* from, int64_t ld, int64_t column, int64_t n) {
  uint32_t* to = right.packed + column / 16 * right.panel;
  if (!right.transposed) return pack_rows(from, ld, right.k, column, n, right.alpha, to, 16, whole(n), right.panel);
  for (int64_t j = 0; j < n; j += 16, to += right.panel) pack_columns(from, ld, right.k, column + j, n - j < 16 ? n - j : 16, right.alpha, to, 16);
}
#endif

// Fills the panels of `PACKED` columns from `column` on.
template <class T>
void pack(const Right<T>& right, int64_t column) {
  const int64_t n = right.n - column < PACKED ? right.n - column : PACKED, k = right.k;
  if constexpr (sizeof(T) != sizeof(float)) {
    if (right.wide && right.transposed)
      as_floats(right.from + column * right.ld, n, k, right.ld, right.wide + column * k, k);
    else if (right.wide)
      as_floats(right.from + column, k, n, right.ld, right.wide + column, right.wide_ld);
  }
#if OWN_PRODUCTS
  if (!right.packed) return;
  if constexpr (IN_FLOAT<T>)
    pack_panels(right, right.wide, right.wide_ld, column, n);
  else
    pack_panels(right, right.from, right.ld, column, n);
#endif
}

template <class T>
Right<T> right_of(int which, bool transposed, int64_t n, int64_t k, float alpha, const T* b, int64_t ld) {
  const Right<T> right = right_for(which, transposed, n, k, alpha, b, ld);
  for (int64_t column = 0; column < n; column += PACKED) pack(right, column);
  return right;
}

// The columns from `start` on, which begins a panel.
template <class T>
Right<T> columns_of(Right<T> right, int64_t start, int64_t columns) {
  right.n = columns, right.from += start * (right.transposed ? right.ld : 1);
  if (right.wide) right.wide += start * (right.transposed ? right.wide_ld : 1);
  if (right.words) right.words += start / 16 * right.panel;
  return right;
}

// zero_behind: behind each row of A stands a zero, so that a row of an odd number of bfloat16 needs no copy.
template <class T>
void product(bool ta, int64_t m, const T* a, int64_t lda, const Right<T>& right, float beta, float* c, int64_t ldc, bool zero_behind = false) {
#if OWN_PRODUCTS
  if constexpr (IN_FLOAT<T>) {
    if (right.words) {
      const Right<float> floats{right.transposed, right.n, right.k, right.alpha, nullptr, 0, nullptr, 0, nullptr, right.words, right.step, right.panel};
      const int64_t columns = ta ? m : right.k;
      return multiply(ta, m, widened(a, ta ? right.k : m, columns, lda, 17), columns, floats, InFloat{c, ldc, 1.0f, beta}, false);
    }
  } else if constexpr (OWN<T>) {
    const float alpha = sizeof(T) == sizeof(float) ? 1.0f : right.alpha;  // floats are packed with theirs
    if (own<T>(m, right.n)) return multiply(ta, m, a, lda, right, InFloat{c, ldc, alpha, beta}, zero_behind);
  }
#endif
  if constexpr (sizeof(T) == sizeof(float)) {
    by_mkl(ta, right.transposed, m, right.n, right.k, right.alpha, a, lda, right.from, right.ld, beta, c, ldc);
  } else if (right.wide) {
    const int64_t columns = ta ? m : right.k;
    const float* wide = widened(a, ta ? right.k : m, columns, lda, 17);
    by_mkl(ta, right.transposed, m, right.n, right.k, right.alpha, wide, columns, right.wide, right.wide_ld, beta, c, ldc);
  } else {
    cblas_gemm_bf16bf16f32(101, ta ? 112 : 111, right.transposed ? 112 : 111, m, right.n, right.k, right.alpha, &a->bits, lda,
                           &right.from->bits, right.ld, beta, c, ldc);
  }
}

template <class T>
void product(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const T* a, int64_t lda, const T* b, int64_t ldb, float beta,
             float* c, int64_t ldc) {
  product(ta, m, a, lda, right_of(8, tb, n, k, alpha, b, ldb), beta, c, ldc);
}

// The dropout of model/dropout.py: 64-bit word c of a row decides elements 4c … 4c + 3 by 15 bits each.
struct Dropout {
  const uint64_t* rows;     // a word for each token
  const uint64_t* heads;    // a word for each head; null: the mask has none
  const uint64_t* columns;  // a word for each four elements of a row
  uint64_t key;             // of this use of dropout
  int64_t threshold;        // of 32,768 values, so many drop an element; 0: no dropout
  float rescale;
};

// For each element of a row a number that is negative where the element is dropped. `lanes` has room for a multiple of four.
inline void draw(const Dropout& dropout, int64_t row, int64_t head, int64_t width, int16_t* lanes) {
  const uint64_t ones = 0x0001000100010001u, limit = (32768u + uint64_t(dropout.threshold) - 1u) * ones;
  uint64_t key = (dropout.rows[row] ^ dropout.key ^ (dropout.heads ? dropout.heads[head] : 0u)) * 0x9E3779B97F4A7C15u;
  key ^= key >> 32;
  const uint64_t* columns = dropout.columns;
  const int64_t words = (width + 3) / 4;
#pragma omp simd
  for (int64_t c = 0; c < words; ++c) {
    uint64_t word = (key ^ columns[c]) * 0x9E3779B97F4A7C15u;
    word ^= word >> 32;
    word = limit - (word & (0x7FFFu * ones));
    std::memcpy(lanes + 4 * c, &word, 8);
  }
}

}  // namespace

extern "C" {

// Tensors (batch, heads, n, width) by their strides; elements of a vector lie side by side.
struct View {
  char* data;
  int64_t batch, head, token;
};

// Kernels that are products x · table, which are made where they are read. x.data null: they are given.
struct Factors {
  View x, grad_x;                    // (batch, heads, n, rank). Where grad_x is the gradient of q or k, that of the product is added to it
  const char *table, *turned;        // (1 or heads, rank, width) and the same transposed, row-major
  float* grad_table;                 // (parts, heads, rank, width), zero before
  int64_t rank, head;                // head: from one head's table to the next
};

struct AttentionCall {
  int64_t batch, heads, n, width;
  const int64_t* starts;             // (batch + 1), or null. Then vectors of all sequences are one row, of sequence b from starts[b] on, up to
                                     // starts[b + 1], and n is the length of the longest. What is no vector has its place by n
  float scale;                       // factor of q·k
  View q, k, v, y;                   // q.data null: no q·k. In the backward pass y is the gradient of the output
  View grad_q, grad_k, grad_v;       // backward pass alone
  char* p;                           // (batch, heads, n, whole(n)) probabilities, dropped ones with a minus sign; null: not kept
  const float* offset;               // (heads, 2n − 1) or null
  const float* query;                // (batch, heads, n, query_width) or null
  const float* key;                  // (batch, heads, n, key_width) or null
  const float* value;                // (value_width, width) or null
  const char* dense;                 // (1 or batch, heads, n, n) or null
  const int32_t* columns;            // (2n − 1), the column of query and key for each offset; or null: o + k, and beyond as `zero` says
  int64_t query_width, key_width, value_width, dense_batch;  // dense_batch: from one sequence's to the next
  float *grad_offset, *grad_query, *grad_key, *grad_value;  // (batch, heads, …) each, zero before
  char* grad_dense;                  // (batch, heads, n, n)
  const uint8_t* mask;               // (batch, n), 1 at real tokens; or null
  Factors query_factors, key_factors;
  Dropout dropout;
  int64_t parts;                     // runs of sequences, each with gradients of the factors' tables of its own
  int64_t zero, reach, threads;      // zero: windows end at ±k, else their outermost weights go on; reach: farthest token seen
};

struct NormCall {
  int64_t rows, width;
  const char *x, *y;                 // forward: x + drop(y); backward: y is the gradient of the output
  char *total, *out, *grad_y;        // backward: out is the gradient of x
  float *mean, *rstd;                // (rows)
  const float *weight, *bias;        // (width)
  float *grad_weight, *grad_bias;    // (parts, width), zero before
  Dropout dropout;
  double eps;
  int64_t parts, threads;
};

struct GeluCall {
  int64_t rows, width;
  const char *x, *grad;              // grad null in the forward pass
  char* out;                         // backward: the gradient of x; may be `grad`
  char* again;                       // backward pass alone: what the forward pass gave
  const float* bias;                 // (width)
  float* grad_bias;                  // (parts, width), zero before
  int64_t parts, threads;
};

// out = op(a) op(b) + bias + beside, in float or, if `narrow`, in the number format of a and b.
struct ProductCall {
  int64_t rows, columns, depth;
  const char *a, *b;                 // (rows, depth) and (depth, columns), or transposed
  int64_t a_row, b_row;              // from one row to the next
  int64_t a_transposed, b_transposed;
  const float* bias;                 // (columns) or null
  const char* beside;                // (rows, columns), in the number format of a and b, or null
  char* out;                         // (rows, columns)
  int64_t narrow, threads;
};

// A layer of the papers' networks: z = LN(x + drop(W_o attention(W_qkv x))), out = LN(z + drop(W_2 GELU(W_1 z))), of T tokens, R of which
// have an output. Matrices are those of torch's linear maps, hidden × hidden, inner × hidden and so on.
struct LayerCall {
  int64_t tokens, rows, hidden, inner;
  const int64_t* kept;               // (R) which tokens have an output; null: all
  const char* x;                     // (T, hidden)
  const char *project, *output, *widen, *narrow;
  const float *b_project, *b_output, *gain_1, *shift_1, *b_widen, *b_narrow, *gain_2, *shift_2;
  char* needed;                      // (R, hidden), the attention's output at these; where all are kept, the place that it is written to
  char *sum_1, *z, *wide, *sum_2;    // (R, hidden), and W_1 z (R, inner)
  float *mean_1, *rstd_1, *mean_2, *rstd_2;  // (R)
  char *out;                         // (R, hidden); backward: (T, hidden), the gradient of x
  char *active, *branch, *before;    // room: (R, inner), (R, hidden), (R, hidden)
  AttentionCall attention;           // q, k and v stand side by side, (T, 3 hidden), and so do their gradients
  Dropout dropout_1, dropout_2;
  double eps_1, eps_2;
  // Backward alone: the gradient of the output (R, hidden), and of the parameters, in float.
  const char* grad;
  float *of_project, *of_b_project, *of_output, *of_b_output, *of_gain_1, *of_shift_1, *of_widen, *of_b_widen, *of_narrow, *of_b_narrow;
  float *of_gain_2, *of_shift_2;
  char *grad_wide, *grad_z, *grad_before;  // room: (R, inner), (R, hidden), (T, hidden)
  float* sums;                       // room: (parts, 4 hidden + inner), zero before
  int64_t parts, threads;
};

struct TapsCall {
  int64_t batch, n, width, taps;     // width: channels; taps: 2k + 1
  const char *x, *grad;              // (batch, n, width), both zero beyond the sequences
  float* out;                        // (width, taps)
  int64_t threads;
};

struct SumCall {
  int64_t groups, rows, width;
  const char* x;                     // (groups, rows, width)
  float* out;                        // (groups, width)
  int64_t threads;
};

struct LossCall {
  int64_t rows, width;
  char* logits;                      // (rows, width) without their bias; becomes softmax − one-hot
  const float* bias;                 // (width)
  const int64_t* target;             // (rows)
  float *loss, *right;               // (rows): −log softmax[target]; 1 where no other logit is higher
  int64_t threads;
};
}

namespace {

template <class T>
T* at(const AttentionCall& call, const View& view, int64_t batch, int64_t head, int64_t token = 0) {
  const int64_t sequence = call.starts ? call.starts[batch] * view.token : batch * view.batch;
  return reinterpret_cast<T*>(view.data) + sequence + head * view.head + token * view.token;
}
inline int64_t length_of(const AttentionCall& call, int64_t batch) {
  return call.starts ? call.starts[batch + 1] - call.starts[batch] : call.n;
}

// Query rows that are worked on together: their scores stay in the second-level cache.
inline int64_t block_of(int64_t n) { return n <= 128 ? n : n <= 512 ? 64 : 32; }

// s += the window `kernel` of row i read at j − i.
inline void add_window(float* s, const float* kernel, int64_t width, int64_t i, int64_t n, bool zero) {
  const int64_t k = width / 2, first = i > k ? i - k : 0, stop = i + k + 1 < n ? i + k + 1 : n;
  for (int64_t j = first; j < stop; ++j) s[j] += kernel[j - i + k];
  if (zero) return;
  const float left = kernel[0], right = kernel[width - 1];
#pragma omp simd
  for (int64_t j = 0; j < first; ++j) s[j] += left;
#pragma omp simd
  for (int64_t j = stop; j < n; ++j) s[j] += right;
}

// The adjoint: grad += the gradients s of row i, by offset.
inline void grad_window(const float* s, float* grad, int64_t width, int64_t i, int64_t n, bool zero) {
  const int64_t k = width / 2, first = i > k ? i - k : 0, stop = i + k + 1 < n ? i + k + 1 : n;
  for (int64_t j = first; j < stop; ++j) grad[j - i + k] += s[j];
  if (zero) return;
  float left = 0, right = 0;
#pragma omp simd reduction(+ : left)
  for (int64_t j = 0; j < first; ++j) left += s[j];
#pragma omp simd reduction(+ : right)
  for (int64_t j = stop; j < n; ++j) right += s[j];
  grad[0] += left;
  grad[width - 1] += right;
}

// s += the windows of the keys j read at i − j; `left` and `right` hold their outermost weights.
inline void add_key_windows(float* s, const float* kernel, const float* left, const float* right, int64_t width, int64_t i, int64_t n,
                            bool zero) {
  const int64_t k = width / 2, first = i > k ? i - k : 0, stop = i + k + 1 < n ? i + k + 1 : n;
  for (int64_t j = first; j < stop; ++j) s[j] += kernel[j * width + i - j + k];
  if (zero) return;
#pragma omp simd
  for (int64_t j = 0; j < first; ++j) s[j] += right[j];
#pragma omp simd
  for (int64_t j = stop; j < n; ++j) s[j] += left[j];
}

inline void grad_key_windows(const float* s, float* grad, float* left, float* right, int64_t width, int64_t i, int64_t n, bool zero) {
  const int64_t k = width / 2, first = i > k ? i - k : 0, stop = i + k + 1 < n ? i + k + 1 : n;
  for (int64_t j = first; j < stop; ++j) grad[j * width + i - j + k] += s[j];
  if (zero) return;
#pragma omp simd
  for (int64_t j = 0; j < first; ++j) right[j] += s[j];
#pragma omp simd
  for (int64_t j = stop; j < n; ++j) left[j] += s[j];
}

// The same where `columns` says which weight belongs to the offset from the row's token to token j, which stands at columns[j]; for
// keys at columns[−j], of the offset from token j.
inline void add_mapped(float* s, const float* kernel, const int32_t* columns, int64_t first, int64_t stop) {
#pragma omp simd
  for (int64_t j = first; j < stop; ++j) s[j] += kernel[columns[j]];
}
inline void grad_mapped(const float* s, float* grad, const int32_t* columns, int64_t first, int64_t stop) {
  for (int64_t j = first; j < stop; ++j) grad[columns[j]] += s[j];
}
inline void add_mapped_keys(float* s, const float* kernel, const int32_t* columns, int64_t width, int64_t first, int64_t stop) {
#pragma omp simd
  for (int64_t j = first; j < stop; ++j) s[j] += kernel[j * width + columns[-j]];
}
inline void grad_mapped_keys(const float* s, float* grad, const int32_t* columns, int64_t width, int64_t first, int64_t stop) {
  for (int64_t j = first; j < stop; ++j) grad[j * width + columns[-j]] += s[j];
}

// The tokens that rows from `start` on see: from `first` on, `count` of them.
struct Seen {
  int64_t first, stop, count;
  Seen(int64_t reach, int64_t n, int64_t start, int64_t rows)
      : first(start > reach ? start - reach : 0),
        stop(start + rows + reach < n ? start + rows + reach : n),
        count(stop - first) {}
  void clear(float* s, int64_t n) const {  // of the row s, what is not seen
    std::memset(s, 0, first * sizeof(float));
    std::memset(s + stop, 0, (n - stop) * sizeof(float));
  }
};

constexpr int64_t FACTORED = 32;  // tokens whose kernels are one product

// The columns of a factored kernel that tokens first … first + rows − 1 read: an even number of them where there are as many, because
// products over them then need no copy.
struct Read {
  int64_t first, stop, count;
  Read(const AttentionCall& call, int64_t width, int64_t token, int64_t rows) : first(0), stop(width) {
    if (call.zero && !call.columns) {
      const int64_t k = width / 2;
      if (k > token + rows - 1) first = k - (token + rows - 1);
      if (call.n - token + k < width) stop = call.n - token + k;
    }
    if ((stop - first) % 2 && stop < width) ++stop;
    else if ((stop - first) % 2 && first > 0) --first;
    count = stop - first;
  }
};

// The kernels of `rows` tokens from `token` on, as far as they are read.
template <class T>
void multiply_factors(const AttentionCall& call, const Factors& factors, int64_t width, int64_t b, int64_t h, int64_t token, int64_t rows,
                      float* to) {
  const T* table = reinterpret_cast<const T*>(factors.table) + h * factors.head;
  for (int64_t row = 0; row < rows; row += FACTORED) {
    const int64_t some = rows - row < FACTORED ? rows - row : FACTORED;
    const Read reads(call, width, token + row, some);
    product(false, false, some, reads.count, factors.rank, 1.0f, at<T>(call, factors.x, b, h, token + row), factors.x.token, table + reads.first,
            width, 0.0f, to + row * width + reads.first, width);
  }
}

// The adjoint: from the gradients of the kernels those of x, and what they add to that of the table.
template <class T>
void grad_factors(const AttentionCall& call, const Factors& factors, int64_t width, int64_t part, int64_t b, int64_t h, int64_t token,
                  int64_t rows, const float* grad) {
  const int64_t rank = factors.rank;
  const T* turned = reinterpret_cast<const T*>(factors.turned) + h * factors.head;
  float* grad_table = factors.grad_table + (part * call.heads + h) * rank * width;
  T* side_by_side = scratch_of<T>(14, FACTORED * width);
  float* grad_x = scratch(11, FACTORED * rank);
  for (int64_t row = 0; row < rows; row += FACTORED) {
    const int64_t some = rows - row < FACTORED ? rows - row : FACTORED;
    const Read reads(call, width, token + row, some);
    for (int64_t r = 0; r < some; ++r) narrow(grad + (row + r) * width + reads.first, side_by_side + r * reads.count, reads.count);
    product(false, false, some, rank, reads.count, 1.0f, side_by_side, reads.count, turned + reads.first * rank, rank, 0.0f, grad_x, rank);
    for (int64_t r = 0; r < some; ++r) narrow(grad_x + r * rank, at<T>(call, factors.grad_x, b, h, token + row + r), rank);
    product(true, false, rank, reads.count, some, 1.0f, at<T>(call, factors.x, b, h, token + row), factors.x.token, side_by_side, reads.count, 1.0f,
            grad_table + reads.first, width);
  }
}

// Queries times the factor of q·k, in the number format of q.
template <class T>
struct Scaled {
  const T* rows;
  int64_t step;
  Scaled(const AttentionCall& call, int64_t b, int64_t h, int64_t start, int64_t count) : rows(nullptr), step(call.q.token) {
    if (!call.q.data) return;
    rows = at<T>(call, call.q, b, h, start);
    if (call.scale == 1.0f) return;
    const int64_t d = call.width;
    T* to = scratch_of<T>(19, count * d);
    float* line = scratch(20, d);
    for (int64_t i = 0; i < count; ++i) {
#pragma omp simd
      for (int64_t c = 0; c < d; ++c) line[c] = load(rows[i * step + c]) * call.scale;
      narrow(line, to + i * d, d);
    }
    rows = to, step = d;
  }
};

template <class T>
void attention_forward(const AttentionCall& call, int64_t b, int64_t h) {
  const int64_t n = length_of(call, b), wide = whole(n), d = call.width, block = block_of(n), place = b * call.heads + h;
  const bool dropping = call.dropout.threshold > 0, zero = call.zero;
  const float rescale = dropping ? call.dropout.rescale : 1.0f;
  float* scores = scratch(0, block * wide);
  T* kept = scratch_of<T>(1, block * wide);
  float* edges = scratch(2, 3 * n);
  float *left = edges, *right = edges + n, *hidden = edges + 2 * n;
  int16_t* lanes = scratch_of<int16_t>(3, wide);
  float* out = scratch(4, block * d);
  float* summed = scratch(5, block * (call.value ? call.value_width : 0));
  const bool query_made = call.query_factors.x.data, key_made = call.key_factors.x.data;
  float* queries = scratch(12, query_made ? block * call.query_width : 0);
  float* keys = scratch(13, key_made ? n * call.key_width : 0);
  if (key_made) multiply_factors<T>(call, call.key_factors, call.key_width, b, h, 0, n, keys);
  const float* key = key_made ? keys : call.key ? call.key + place * call.n * call.key_width : nullptr;
  if (key && !zero)
    for (int64_t j = 0; j < n; ++j) left[j] = key[j * call.key_width], right[j] = key[(j + 1) * call.key_width - 1];
  const bool masked = call.mask && std::memchr(call.mask + b * call.n, 0, n);
  if (masked)
    for (int64_t j = 0; j < n; ++j) hidden[j] = call.mask[b * call.n + j] ? 0.0f : -1e30f;
  T* of_place = call.p ? reinterpret_cast<T*>(call.p) + place * call.n * whole(call.n) : nullptr;
  Right<T> k, v;
  for (int64_t start = 0; start < n; start += block) {
    const int64_t rows = start + block < n ? block : n - start;
    const Seen block_sees(call.reach, n, start, rows);
    if (!start || call.reach < n) {
      if (call.q.data) k = right_of(15, true, block_sees.count, d, 1.0f, at<T>(call, call.k, b, h, block_sees.first), call.k.token);
      v = right_of(16, false, d, block_sees.count, rescale, at<T>(call, call.v, b, h, block_sees.first), call.v.token);
    }
    const Scaled<T> q(call, b, h, start, rows);
    if (call.q.data)
      product(false, rows, q.rows, q.step, k, 0.0f, scores + block_sees.first, wide);
    else
      std::memset(scores, 0, rows * wide * sizeof(float));
    if (query_made) multiply_factors<T>(call, call.query_factors, call.query_width, b, h, start, rows, queries);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t i = start + row;
      const Seen sees(call.reach, n, i, 1);
      float* s = scores + row * wide;
      const float* query = query_made ? queries + row * call.query_width : call.query ? call.query + (place * call.n + i) * call.query_width : nullptr;
      if (call.offset) {
        const float* offset = call.offset + h * (2 * call.n - 1) + call.n - 1 - i;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) s[j] += offset[j];
      }
      if (call.dense) {
        const T* dense = reinterpret_cast<const T*>(call.dense) + b * call.dense_batch + (h * call.n + i) * call.n;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) s[j] += load(dense[j]);
      }
      if (query && call.columns)
        add_mapped(s, query, call.columns + call.n - 1 - i, sees.first, sees.stop);
      else if (query)
        add_window(s, query, call.query_width, i, n, zero);
      if (key && call.columns)
        add_mapped_keys(s, key, call.columns + call.n - 1 + i, call.key_width, sees.first, sees.stop);
      else if (key)
        add_key_windows(s, key, left, right, call.key_width, i, n, zero);
      if (masked) {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) s[j] += hidden[j];
      }
      for (int64_t j = n; j < wide; ++j) s[j] = -INFINITY;
      const int64_t stop = sees.stop < n ? sees.stop : wide;
      float top = s[sees.first], total = 0;
#pragma omp simd reduction(max : top)
      for (int64_t j = sees.first; j < stop; ++j) top = s[j] > top ? s[j] : top;
#pragma omp simd reduction(+ : total)
      for (int64_t j = sees.first; j < stop; ++j) {
        const float e = exponential(s[j] - top);
        s[j] = e;
        total += e;
      }
      if (sees.count < n) sees.clear(s, wide);
      const float share = 1.0f / total;
      T* p = call.p ? of_place + i * wide : nullptr;
      T* used = kept + row * wide;
      if (dropping) {
        draw(call.dropout, b * call.n + i, h, n, lanes);
        float* line = in_float(p, 10, wide);
#pragma omp simd
        for (int64_t j = 0; j < wide; ++j) line[j] = lanes[j] < 0 ? -s[j] * share : s[j] * share;
        narrow(line, p, wide);
#pragma omp simd
        for (int64_t j = 0; j < wide; ++j) used[j] = positive(p[j]);
      } else {
        if (p) used = p;
        float* line = in_float(used, 10, wide);
#pragma omp simd
        for (int64_t j = 0; j < wide; ++j) line[j] = s[j] * share;
        narrow(line, used, wide);
      }
    }
    const T* used = dropping || !call.p ? kept : of_place + start * wide;
    T* y = at<T>(call, call.y, b, h, start);
    product(false, rows, used + block_sees.first, wide, v, 0.0f, out, d, true);
    if (call.value) {  // the probabilities summed by offset, times the table
      const int64_t width = call.value_width;
      std::memset(summed, 0, rows * width * sizeof(float));
      for (int64_t row = 0; row < rows; ++row) {
        float* s = scores + row * wide;
        for (int64_t j = 0; j < n; ++j) s[j] = load(used[row * wide + j]);
        grad_window(s, summed + row * width, width, start + row, n, zero);
      }
      product(false, false, rows, d, width, rescale, summed, width, call.value, d, 1.0f, out, d);
    }
    for (int64_t row = 0; row < rows; ++row) {
      T* to = y + row * call.y.token;
      const float* from = out + row * d;
      narrow(from, to, d);
    }
  }
}

template <class T>
void attention_backward(const AttentionCall& call, int64_t part, int64_t b, int64_t h) {
  const int64_t n = length_of(call, b), wide = whole(n), d = call.width, block = block_of(n), place = b * call.heads + h;
  const bool dropping = call.dropout.threshold > 0, zero = call.zero;
  const float rescale = dropping ? call.dropout.rescale : 1.0f;
  float* grads = scratch(0, block * wide);  // of the probabilities, then of the scores
  T* kept = scratch_of<T>(1, block * wide);
  float* edges = scratch(2, 2 * n);
  float *left = edges, *right = edges + n;
  float* sums = scratch(4, 3 * n * d);
  float *grad_q = sums, *grad_k = sums + n * d, *grad_v = sums + 2 * n * d;
  const int64_t value_width = call.value ? call.value_width : 0;
  float* summed = scratch(5, 2 * block * value_width);
  float* upstream = scratch(6, call.value ? block * d : 0);
  const bool query_made = call.query_factors.x.data, key_made = call.key_factors.x.data;
  float* queries = scratch(12, query_made ? block * call.query_width : 0);
  float* keys = scratch(13, key_made ? n * call.key_width : 0);
  if (key_made) std::memset(keys, 0, n * call.key_width * sizeof(float));
  float* grad_key = key_made ? keys : call.grad_key ? call.grad_key + place * call.n * call.key_width : nullptr;
  if (grad_key) std::memset(edges, 0, 2 * n * sizeof(float));
  const bool some_keys = call.reach < n;  // a block adds to the gradients of some keys only
  if (some_keys) std::memset(grad_k, 0, 2 * n * d * sizeof(float));
  Right<T> k, v;
  for (int64_t start = 0; start < n; start += block) {
    const int64_t rows = start + block < n ? block : n - start;
    const float beta = start || some_keys ? 1.0f : 0.0f;
    const Seen block_sees(call.reach, n, start, rows);
    const int64_t seen = block_sees.first;
    const T* y = at<T>(call, call.y, b, h, start);
    const T* p = reinterpret_cast<const T*>(call.p) + place * call.n * whole(call.n) + start * wide;
    if (!start || some_keys) {
      v = right_of(15, true, block_sees.count, d, rescale, at<T>(call, call.v, b, h, seen), call.v.token);
      if (call.q.data) k = right_of(16, false, d, block_sees.count, 1.0f, at<T>(call, call.k, b, h, seen), call.k.token);
    }
    product(false, rows, y, call.y.token, v, 0.0f, grads + seen, wide);
    const T* used = p;
    if (dropping) {
      used = kept;
#pragma omp simd
      for (int64_t j = 0; j < rows * wide; ++j) kept[j] = positive(p[j]);
    }
    product(true, false, block_sees.count, d, rows, rescale, used + seen, wide, y, call.y.token, beta, grad_v + seen * d, d);
    if (call.value) {
      float* of_sums = summed + block * value_width;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t c = 0; c < d; ++c) upstream[row * d + c] = load(y[row * call.y.token + c]);
      product(false, true, rows, value_width, d, rescale, upstream, d, call.value, d, 0.0f, of_sums, value_width);
      std::memset(summed, 0, rows * value_width * sizeof(float));
      float* line = scratch(7, n);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t j = 0; j < n; ++j) line[j] = load(used[row * wide + j]);
        grad_window(line, summed + row * value_width, value_width, start + row, n, zero);
        add_window(grads + row * wide, of_sums + row * value_width, value_width, start + row, n, zero);
      }
      product(true, false, value_width, d, rows, rescale, summed, value_width, upstream, d, 1.0f, call.grad_value + place * value_width * d, d);
    }
    if (query_made) std::memset(queries, 0, rows * call.query_width * sizeof(float));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t i = start + row;
      const Seen sees(call.reach, n, i, 1);
      float* s = grads + row * wide;
      float* grad_query =
          query_made ? queries + row * call.query_width : call.grad_query ? call.grad_query + (place * call.n + i) * call.query_width : nullptr;
      for (int64_t j = n; j < wide; ++j) s[j] = 0.0f;
      if (sees.count < n) sees.clear(s, n);
      const T* signs = p + row * wide;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t j = 0; j < wide; ++j) {
        const float signed_p = load(signs[j]), part = signed_p * s[j];  // a load under a condition would keep the sums in memory
        dot += signed_p > 0.0f ? part : 0.0f;
      }
#pragma omp simd
      for (int64_t j = 0; j < wide; ++j) {
        const float signed_p = load(signs[j]);
        s[j] = signed_p > 0.0f ? signed_p * (s[j] - dot) : signed_p * dot;  // a dropped one is −p: p (0 − dot)
      }
      if (call.grad_offset) {
        float* offset = call.grad_offset + place * (2 * call.n - 1) + call.n - 1 - i;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) offset[j] += s[j];
      }
      if (call.grad_dense) {
        T* to = reinterpret_cast<T*>(call.grad_dense) + (place * call.n + i) * call.n;
        narrow(s, to, n);
      }
      if (grad_query && call.columns)
        grad_mapped(s, grad_query, call.columns + call.n - 1 - i, sees.first, sees.stop);
      else if (grad_query)
        grad_window(s, grad_query, call.query_width, i, n, zero);
      if (grad_key && call.columns)
        grad_mapped_keys(s, grad_key, call.columns + call.n - 1 + i, call.key_width, sees.first, sees.stop);
      else if (grad_key)
        grad_key_windows(s, grad_key, left, right, call.key_width, i, n, zero);
    }
    if (query_made) grad_factors<T>(call, call.query_factors, call.query_width, part, b, h, start, rows, queries);
    if (!call.q.data) continue;
    const T* of_scores = reinterpret_cast<const T*>(grads);
    if (sizeof(T) != sizeof(float)) {
      narrow(grads, kept, rows * wide);
      of_scores = kept;
    }
    product(false, rows, of_scores + seen, wide, k, 0.0f, grad_q + start * d, d, true);
    const Scaled<T> q(call, b, h, start, rows);
    product(true, false, block_sees.count, d, rows, 1.0f, of_scores + seen, wide, q.rows, q.step, beta, grad_k + seen * d, d);
  }
  if (grad_key && !zero)
    for (int64_t j = 0; j < n; ++j) {
      grad_key[j * call.key_width] += left[j];
      grad_key[(j + 1) * call.key_width - 1] += right[j];
    }
  if (key_made) grad_factors<T>(call, call.key_factors, call.key_width, part, b, h, 0, n, keys);
  const View* to[] = {&call.grad_q, &call.grad_k, &call.grad_v};
  float* from[] = {grad_q, grad_k, grad_v};
  const bool adds[] = {query_made && call.query_factors.grad_x.data == call.grad_q.data,
                       key_made && call.key_factors.grad_x.data == call.grad_k.data, false};
  for (int which = call.q.data ? 0 : 2; which < 3; ++which)
    for (int64_t i = 0; i < n; ++i) {
      T* row = at<T>(call, *to[which], b, h, i);
      float* sum = from[which] + i * d;
      if (which == 0 && call.scale != 1.0f)
        for (int64_t c = 0; c < d; ++c) sum[c] *= call.scale;
      if (adds[which]) {
        round_to<T>(sum, d);
        for (int64_t c = 0; c < d; ++c) sum[c] += load(row[c]);
      }
      narrow(sum, row, d);
    }
}

template <class T>
void norm_forward_row(const NormCall& call, int64_t row) {
  const int64_t width = call.width;
  const T* x = reinterpret_cast<const T*>(call.x) + row * width;
  const T* y = reinterpret_cast<const T*>(call.y) + row * width;
  T* total = reinterpret_cast<T*>(call.total) + row * width;
  T* out = reinterpret_cast<T*>(call.out) + row * width;
  const float *weight = call.weight, *bias = call.bias;
  float sum = 0, squares = 0;
  float* line = in_float(total, 10, width);
  if (call.dropout.threshold > 0) {
    int16_t* lanes = scratch_of<int16_t>(3, width + 4);
    draw(call.dropout, row, 0, width, lanes);
    const float rescale = call.dropout.rescale;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) line[c] = load(x[c]) + (lanes[c] < 0 ? 0.0f : load(y[c]) * rescale);
  } else {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) line[c] = load(x[c]) + load(y[c]);
  }
  narrow(line, total, width);
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < width; ++c) sum += load(total[c]);
  const float mean = sum / float(width);
#pragma omp simd reduction(+ : squares)
  for (int64_t c = 0; c < width; ++c) squares += (load(total[c]) - mean) * (load(total[c]) - mean);
  const float rstd = float(1.0 / std::sqrt(double(squares) / double(width) + call.eps));
  line = in_float(out, 10, width);
#pragma omp simd
  for (int64_t c = 0; c < width; ++c) line[c] = (load(total[c]) - mean) * rstd * weight[c] + bias[c];
  narrow(line, out, width);
  call.mean[row] = mean;
  call.rstd[row] = rstd;
}

template <class T>
void norm_backward_row(const NormCall& call, int64_t row, float* grad_weight, float* grad_bias) {
  const int64_t width = call.width;
  const T* total = reinterpret_cast<const T*>(call.total) + row * width;
  const T* grad = reinterpret_cast<const T*>(call.y) + row * width;
  T* grad_x = reinterpret_cast<T*>(call.out) + row * width;
  T* grad_y = reinterpret_cast<T*>(call.grad_y) + row * width;
  const float* weight = call.weight;
  const float mean = call.mean[row], rstd = call.rstd[row];
  float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
  for (int64_t c = 0; c < width; ++c) {
    const float g = load(grad[c]), normal = (load(total[c]) - mean) * rstd;
    grad_weight[c] += g * normal;
    grad_bias[c] += g;
    sum += g * weight[c];
    dot += g * weight[c] * normal;
  }
  sum /= float(width);
  dot /= float(width);
  float* line = in_float(grad_x, 10, width);
#pragma omp simd
  for (int64_t c = 0; c < width; ++c)
    line[c] = rstd * (load(grad[c]) * weight[c] - sum - (load(total[c]) - mean) * rstd * dot);
  narrow(line, grad_x, width);
  if (call.dropout.threshold > 0) {
    int16_t* lanes = scratch_of<int16_t>(3, width + 4);
    draw(call.dropout, row, 0, width, lanes);
    const float rescale = call.dropout.rescale;
    float* kept = in_float(grad_y, 11, width);
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) kept[c] = lanes[c] < 0 ? 0.0f : line[c] * rescale;
    narrow(kept, grad_y, width);
  }
}

// Φ(x), and e^(−x²/2) on the way. Abramowitz and Stegun 7.1.26: off by at most 1.5e-7, and as exact relative to it where x is negative.
inline float normal_distribution(float x, float& density) {
  const float size = std::fabs(x) * 0.70710678118654752f;
  const float t = 1.0f / (1.0f + 0.3275911f * size);
  density = exponential(-size * size);
  const float tail = 0.5f * density * t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return x < 0.0f ? tail : 1.0f - tail;
}

template <class T>
void gelu_row(const GeluCall& call, int64_t row, float* grad_bias) {
  const int64_t width = call.width;
  const T* x = reinterpret_cast<const T*>(call.x) + row * width;
  T* out = reinterpret_cast<T*>(call.out) + row * width;
  const float* bias = call.bias;
  float* line = in_float(out, 10, width);
  if (!call.grad) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      float density;
      const float shifted = load(x[c]) + bias[c];
      line[c] = shifted * normal_distribution(shifted, density);
    }
    narrow(line, out, width);
    return;
  }
  const T* grad = reinterpret_cast<const T*>(call.grad) + row * width;
  T* again = reinterpret_cast<T*>(call.again) + row * width;
  float* active = in_float(again, 11, width);
#pragma omp simd
  for (int64_t c = 0; c < width; ++c) {
    float density;
    const float shifted = load(x[c]) + bias[c], below = normal_distribution(shifted, density);
    active[c] = shifted * below;
    const float g = load(grad[c]) * (below + shifted * density * 0.39894228040143268f);
    line[c] = g;
    grad_bias[c] += g;
  }
  narrow(line, out, width);
  narrow(active, again, width);
}

template <class T>
void loss_row(const LossCall& call, int64_t row) {
  const int64_t width = call.width, target = call.target[row];
  T* logits = reinterpret_cast<T*>(call.logits) + row * width;
  const float* bias = call.bias;
  float* line = scratch(0, width);
  float top = load(logits[0]) + bias[0], total = 0;
#pragma omp simd reduction(max : top)
  for (int64_t c = 0; c < width; ++c) {
    line[c] = load(logits[c]) + bias[c];
    top = line[c] > top ? line[c] : top;
  }
  const float chosen = line[target];
#pragma omp simd reduction(+ : total)
  for (int64_t c = 0; c < width; ++c) {
    line[c] = exponential(line[c] - top);
    total += line[c];
  }
  const float share = 1.0f / total, likely = line[target] * share;
  float* shares = in_float(logits, 0, width);  // of bfloat16 the line itself
#pragma omp simd
  for (int64_t c = 0; c < width; ++c) shares[c] = line[c] * share;
  narrow(shares, logits, width);
  store(logits[target], likely - 1.0f);  // in float: bfloat16 has no number between 0.996 and 1
  call.loss[row] = std::log(total) + (top - chosen);
  call.right[row] = chosen == top;
}

constexpr int64_t TAPS = 8;    // whose gradients are summed together, in registers

// LANES channels, which are worked on together, of one sequence in float, from column `first`, with `margin` tokens of zeros on both sides.
template <class T>
void widen(const T* from, int64_t n, int64_t width, int64_t first, int64_t margin, float* to) {
  const int64_t count = width - first < LANES ? width - first : LANES;
  std::memset(to, 0, margin * LANES * sizeof(float));
  for (int64_t i = 0; i < n; ++i) {
    float* row = to + (margin + i) * LANES;
    if (count == LANES) {
#pragma omp simd
      for (int64_t c = 0; c < LANES; ++c) row[c] = load(from[i * width + first + c]);
    } else {
      for (int64_t c = 0; c < LANES; ++c) row[c] = c < count ? load(from[i * width + first + c]) : 0.0f;
    }
  }
  std::memset(to + (margin + n) * LANES, 0, margin * LANES * sizeof(float));
}

// The gradients of the taps of LANES channels, over all sequences: Σ_i grad_i x_{i + r − k}.
template <class T>
void grad_taps(const TapsCall& call, int64_t first) {
  const int64_t k = call.taps / 2, n = call.n, count = call.width - first < LANES ? call.width - first : LANES;
  const int64_t groups = (call.taps + TAPS - 1) / TAPS;  // the last one may have taps beyond the window, which nobody reads
  float* x = scratch(0, (n + 2 * k + TAPS) * LANES);
  float* grad = scratch(1, n * LANES);
  float* totals = scratch(2, groups * TAPS * LANES);
  std::memset(totals, 0, groups * TAPS * LANES * sizeof(float));
  for (int64_t b = 0; b < call.batch; ++b) {
    widen(reinterpret_cast<const T*>(call.x) + b * n * call.width, n, call.width, first, k, x);
    std::memset(x + (n + 2 * k) * LANES, 0, TAPS * LANES * sizeof(float));
    widen(reinterpret_cast<const T*>(call.grad) + b * n * call.width, n, call.width, first, 0, grad);
    for (int64_t group = 0; group < groups; ++group) {
      float sums[TAPS][LANES];
      std::memcpy(sums, totals + group * TAPS * LANES, sizeof(sums));
      const float* from = x + group * TAPS * LANES;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t t = 0; t < TAPS; ++t)
#pragma omp simd
          for (int64_t c = 0; c < LANES; ++c) sums[t][c] += grad[i * LANES + c] * from[(i + t) * LANES + c];
      std::memcpy(totals + group * TAPS * LANES, sums, sizeof(sums));
    }
  }
  for (int64_t r = 0; r < call.taps; ++r)
    for (int64_t c = 0; c < count; ++c) call.out[(first + c) * call.taps + r] = totals[r * LANES + c];
}

template <class T>
void run(const TapsCall& call, bool) {
#pragma omp parallel for schedule(static) num_threads(call.threads)
  for (int64_t first = 0; first < call.width; first += LANES) grad_taps<T>(call, first);
}

constexpr int64_t SUMMED = 256, RUN = 64;  // columns and rows at once: a sum of sums, whose rounding grows with a 64th of the rows

template <class T>
void sum_rows(const SumCall& call, int64_t group, int64_t first) {
  const int64_t width = call.width, count = width - first < SUMMED ? width - first : SUMMED;
  const T* x = reinterpret_cast<const T*>(call.x) + group * call.rows * width + first;
  float* total = call.out + group * width + first;
  for (int64_t c = 0; c < count; ++c) total[c] = 0.0f;
  for (int64_t start = 0; start < call.rows; start += RUN) {
    float sums[SUMMED] = {};
    for (int64_t row = start; row < start + RUN && row < call.rows; ++row)
#pragma omp simd
      for (int64_t c = 0; c < count; ++c) sums[c] += load(x[row * width + c]);
    for (int64_t c = 0; c < count; ++c) total[c] += sums[c];
  }
}

template <class T>
void run(const SumCall& call, bool) {
  const int64_t parts = (call.width + SUMMED - 1) / SUMMED;
#pragma omp parallel for schedule(static) num_threads(call.threads)
  for (int64_t place = 0; place < call.groups * parts; ++place) sum_rows<T>(call, place / parts, place % parts * SUMMED);
}

template <class T>
void run(const LossCall& call, bool) {
#pragma omp parallel for schedule(static) num_threads(call.threads)
  for (int64_t row = 0; row < call.rows; ++row) loss_row<T>(call, row);
}

constexpr int64_t ROWS_AT_ONCE = 96, COLUMNS_AT_ONCE = 512;  // of a product: what is read again and again stays in the second-level cache
// The rows of a block, whole tiles: of as many blocks for each thread, unless the blocks of columns are shared out evenly.
inline int64_t rows_of_block(const ProductCall& call) {
  const int64_t beside = (call.columns + COLUMNS_AT_ONCE - 1) / COLUMNS_AT_ONCE, shares = beside % call.threads ? call.threads : 1;
  const int64_t blocks = (1 + (call.rows - 1) / (ROWS_AT_ONCE * shares)) * shares;
  return (1 + (call.rows - 1) / blocks + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
}

template <class T>
void run(const ProductCall& call, bool) {
  const T* a = reinterpret_cast<const T*>(call.a);
  const Right<T> whole = right_for(8, call.b_transposed, call.columns, call.depth, 1.0f, reinterpret_cast<const T*>(call.b), call.b_row);
  const bool in_place = !call.narrow || sizeof(T) == sizeof(float);
  const int64_t block = rows_of_block(call);
#pragma omp parallel num_threads(call.threads)
  {
#pragma omp for schedule(static)
    for (int64_t column = 0; column < call.columns; column += PACKED) pack(whole, column);
    // Of matrices of few rows, as gradients of weights are, the blocks of rows alone would leave some threads with twice the work.
#pragma omp for collapse(2) schedule(dynamic)
    for (int64_t first = 0; first < call.rows; first += block) {
      for (int64_t start = 0; start < call.columns; start += COLUMNS_AT_ONCE) {
        const int64_t rows = call.rows - first < block ? call.rows - first : block;
        const int64_t columns = call.columns - start < COLUMNS_AT_ONCE ? call.columns - start : COLUMNS_AT_ONCE;
        const int64_t place = first * call.columns + start, step = in_place ? call.columns : columns;
        const T* left = a + first * (call.a_transposed ? 1 : call.a_row);
        const Right<T> right = columns_of(whole, start, columns);
#if OWN_PRODUCTS_OF_BFLOAT16
        if constexpr (sizeof(T) != sizeof(float))
          if (!in_place) {
            const InBfloat16 to{call.bias, reinterpret_cast<const T*>(call.beside), reinterpret_cast<T*>(call.out), call.columns};
            multiply(call.a_transposed, rows, left, call.a_row, right, to.at(first, start), false);
            continue;
          }
#endif
        float* to = in_place ? reinterpret_cast<float*>(call.out) + place : scratch(19, rows * columns);
        for (int64_t row = 0; row < rows && (call.bias || call.beside); ++row) {
          const T* beside = reinterpret_cast<const T*>(call.beside) + place + row * call.columns;
          for (int64_t c = 0; c < columns; ++c)
            to[row * step + c] = (call.bias ? call.bias[start + c] : 0.0f) + (call.beside ? load(beside[c]) : 0.0f);
        }
        product(call.a_transposed, rows, left, call.a_row, right, call.bias || call.beside ? 1.0f : 0.0f, to, step);
        if (in_place) continue;
        for (int64_t row = 0; row < rows; ++row)
          narrow(to + row * columns, reinterpret_cast<T*>(call.out) + place + row * call.columns, columns);
      }
    }
  }
}

// Rows in `parts` runs, each with sums of its own for the gradients of what all rows share.
inline int64_t first_of(int64_t rows, int64_t part, int64_t parts) { return rows * part / parts; }

template <class T>
void run(const AttentionCall& call, bool backward) {
// Sequences of a batch may be sorted by length.
#pragma omp parallel for schedule(dynamic) num_threads(call.threads)
  for (int64_t place = 0; place < call.parts * call.heads; ++place) {
    const int64_t part = place / call.heads, head = place % call.heads;
    for (int64_t b = first_of(call.batch, part, call.parts); b < first_of(call.batch, part + 1, call.parts); ++b) {
      if (backward)
        attention_backward<T>(call, part, b, head);
      else
        attention_forward<T>(call, b, head);
    }
  }
}

template <class T>
void run(const NormCall& call, bool backward) {
#pragma omp parallel for schedule(static) num_threads(call.threads)
  for (int64_t part = 0; part < call.parts; ++part)
    for (int64_t row = first_of(call.rows, part, call.parts); row < first_of(call.rows, part + 1, call.parts); ++row) {
      if (backward)
        norm_backward_row<T>(call, row, call.grad_weight + part * call.width, call.grad_bias + part * call.width);
      else
        norm_forward_row<T>(call, row);
    }
}

template <class T>
void run(const GeluCall& call, bool) {
#pragma omp parallel for schedule(static) num_threads(call.threads)
  for (int64_t part = 0; part < call.parts; ++part)
    for (int64_t row = first_of(call.rows, part, call.parts); row < first_of(call.rows, part + 1, call.parts); ++row)
      gelu_row<T>(call, row, call.grad ? call.grad_bias + part * call.width : nullptr);
}

// out (rows, columns) = op(a) op(b) + bias + beside of matrices without gaps; a gradient of a matrix, with transposed a, in float.
template <class T>
void multiply(const LayerCall& call, int64_t rows, int64_t columns, int64_t depth, bool ta, const char* a, bool tb, const char* b,
              const float* bias, const char* beside, void* out) {
  run<T>(ProductCall{rows, columns, depth, a, b, ta ? rows : depth, tb ? depth : columns, ta, tb, bias, beside, static_cast<char*>(out), !ta,
                     call.threads},
         false);
}

// Whether some tokens alone have an output. An empty list of them has no address.
inline bool keeps_some(const LayerCall& call) { return call.kept || call.rows < call.tokens; }

template <class T>
void layer_forward(const LayerCall& call) {
  const int64_t tokens = call.tokens, rows = call.rows, hidden = call.hidden, inner = call.inner, bytes = hidden * sizeof(T);
  multiply<T>(call, tokens, 3 * hidden, hidden, false, call.x, true, call.project, call.b_project, nullptr, call.attention.q.data);
  run<T>(call.attention, false);
  const char* before = call.x;
  if (keeps_some(call)) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(call.needed + row * bytes, call.attention.y.data + call.kept[row] * bytes, bytes);
      std::memcpy(call.before + row * bytes, call.x + call.kept[row] * bytes, bytes);
    }
    before = call.before;
  }
  multiply<T>(call, rows, hidden, hidden, false, call.needed, true, call.output, call.b_output, nullptr, call.branch);
  run<T>(NormCall{rows, hidden, before, call.branch, call.sum_1, call.z, nullptr, call.mean_1, call.rstd_1, call.gain_1, call.shift_1, nullptr,
                  nullptr, call.dropout_1, call.eps_1, call.parts, call.threads},
         false);
  multiply<T>(call, rows, inner, hidden, false, call.z, true, call.widen, nullptr, nullptr, call.wide);
  run<T>(GeluCall{rows, inner, call.wide, nullptr, call.active, nullptr, call.b_widen, nullptr, call.parts, call.threads}, false);
  multiply<T>(call, rows, hidden, inner, false, call.active, true, call.narrow, call.b_narrow, nullptr, call.branch);
  run<T>(NormCall{rows, hidden, call.z, call.branch, call.sum_2, call.out, nullptr, call.mean_2, call.rstd_2, call.gain_2, call.shift_2, nullptr,
                  nullptr, call.dropout_2, call.eps_2, call.parts, call.threads},
         false);
}

template <class T>
void layer_backward(const LayerCall& call) {
  const int64_t tokens = call.tokens, rows = call.rows, hidden = call.hidden, inner = call.inner, bytes = hidden * sizeof(T);
  float *of_norm_1 = call.sums, *of_norm_2 = of_norm_1 + 2 * call.parts * hidden, *of_inner = of_norm_2 + 2 * call.parts * hidden;
  const auto add_up = [&](auto number, int64_t count, int64_t width, const void* from, float* to) {
    run<decltype(number)>(SumCall{1, count, width, static_cast<const char*>(from), to, call.threads}, false);
  };
  const auto grad_norm = [&](const char* grad, char* total, char* grad_x, char* grad_y, float* mean, float* rstd, const float* gain, float* sums,
                             const Dropout& dropout, float* of_gain, float* of_shift) {
    float* of_shifts = sums + call.parts * hidden;
    run<T>(NormCall{rows, hidden, nullptr, grad, total, grad_x, grad_y, mean, rstd, gain, nullptr, sums, of_shifts, dropout, 0.0, call.parts,
                    call.threads},
           true);
    add_up(0.0f, call.parts, hidden, sums, of_gain);
    add_up(0.0f, call.parts, hidden, of_shifts, of_shift);
    return dropout.threshold > 0 ? grad_y : grad_x;  // without dropout both are the same numbers
  };
  const char* grad_ffn = grad_norm(call.grad, call.sum_2, call.grad_z, call.branch, call.mean_2, call.rstd_2, call.gain_2, of_norm_2,
                                   call.dropout_2, call.of_gain_2, call.of_shift_2);
  multiply<T>(call, rows, inner, hidden, false, grad_ffn, false, call.narrow, nullptr, nullptr, call.grad_wide);
  run<T>(GeluCall{rows, inner, call.wide, call.grad_wide, call.grad_wide, call.active, call.b_widen, of_inner, call.parts, call.threads}, true);
  add_up(0.0f, call.parts, inner, of_inner, call.of_b_widen);
  add_up(T{}, rows, hidden, grad_ffn, call.of_b_narrow);
  multiply<T>(call, hidden, inner, rows, true, grad_ffn, false, call.active, nullptr, nullptr, call.of_narrow);
  multiply<T>(call, inner, hidden, rows, true, call.grad_wide, false, call.z, nullptr, nullptr, call.of_widen);
  multiply<T>(call, rows, hidden, inner, false, call.grad_wide, false, call.widen, nullptr, call.grad_z, call.grad_z);
  const bool some = keeps_some(call);
  char* before = some ? call.before : call.grad_before;
  const char* grad_out = grad_norm(call.grad_z, call.sum_1, before, call.branch, call.mean_1, call.rstd_1, call.gain_1, of_norm_1,
                                   call.dropout_1, call.of_gain_1, call.of_shift_1);
  add_up(T{}, rows, hidden, grad_out, call.of_b_output);
  multiply<T>(call, hidden, hidden, rows, true, grad_out, false, call.needed, nullptr, nullptr, call.of_output);
  char *grad_qkv = call.attention.grad_q.data, *grad_y = call.attention.y.data, *grad_needed = some ? call.grad_z : grad_y;
  multiply<T>(call, rows, hidden, hidden, false, grad_out, false, call.output, nullptr, nullptr, grad_needed);
  if (some) {
    std::memset(grad_y, 0, tokens * bytes);
    std::memset(call.grad_before, 0, tokens * bytes);
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(grad_y + call.kept[row] * bytes, grad_needed + row * bytes, bytes);
      std::memcpy(call.grad_before + call.kept[row] * bytes, before + row * bytes, bytes);
    }
  }
  run<T>(call.attention, true);
  add_up(T{}, tokens, 3 * hidden, grad_qkv, call.of_b_project);
  multiply<T>(call, 3 * hidden, hidden, tokens, true, grad_qkv, false, call.x, nullptr, nullptr, call.of_project);
  multiply<T>(call, tokens, hidden, 3 * hidden, false, grad_qkv, false, call.project, nullptr, call.grad_before, call.out);
}

template <class T>
void run(const LayerCall& call, bool backward) {
  if (backward)
    layer_backward<T>(call);
  else
    layer_forward<T>(call);
}

template <class Call>
void dispatch(const Call* call, int half, int backward) {
  if (half)
    run<bfloat16>(*call, backward);
  else
    run<float>(*call, backward);
}

}  // namespace

extern "C" {
void relpos_attention(const AttentionCall* call, int half, int backward) { dispatch(call, half, backward); }
void relpos_layer(const LayerCall* call, int half, int backward) { dispatch(call, half, backward); }
void relpos_norm(const NormCall* call, int half, int backward) { dispatch(call, half, backward); }
void relpos_loss(const LossCall* call, int half, int backward) { dispatch(call, half, backward); }
void relpos_sum(const SumCall* call, int half, int backward) { dispatch(call, half, backward); }
void relpos_product(const ProductCall* call, int half, int backward) { dispatch(call, half, backward); }
void relpos_taps(const TapsCall* call, int half, int backward) { dispatch(call, half, backward); }
void relpos_gelu(const GeluCall* call, int half, int backward) { dispatch(call, half, backward); }
}
