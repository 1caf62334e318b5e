// In the place of libjbig, which a wheel must not carry: it is under the GPL, and libtiff, as distributions build it,
// links it. Nothing is lost: libtiff does not decode JBIG by rows, as Forebay reads, so such an image is a bad sample
// with either library.
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

// What scripts/wheel_contents.py looks for.
EXPORTED const char forebay_no_jbig[] = "Forebay's place holder for libjbig";

EXPORTED void jbg_dec_init(void* state);
EXPORTED int jbg_dec_in(void* state, unsigned char* data, size_t size, size_t* used);
EXPORTED unsigned char* jbg_dec_getimage(const void* state, int plane);
EXPORTED long jbg_dec_getsize(const void* state);
EXPORTED void jbg_dec_free(void* state);
EXPORTED void jbg_enc_init(void* state, unsigned long width, unsigned long height, int planes, unsigned char** images,
                           void (*write)(unsigned char*, size_t, void*), void* file);
EXPORTED void jbg_enc_out(void* state);
EXPORTED void jbg_enc_free(void* state);
EXPORTED int jbg_newlen(unsigned char* data, size_t size);
EXPORTED const char* jbg_strerror(int error);

void jbg_dec_init(void* state) { (void)state; }
int jbg_dec_in(void* state, unsigned char* data, size_t size, size_t* used) {
  (void)state, (void)data, (void)size, (void)used;
  return 1;  // no JBG_EOK
}
unsigned char* jbg_dec_getimage(const void* state, int plane) {
  (void)state, (void)plane;
  return NULL;
}
long jbg_dec_getsize(const void* state) {
  (void)state;
  return 0;
}
void jbg_dec_free(void* state) { (void)state; }
void jbg_enc_init(void* state, unsigned long width, unsigned long height, int planes, unsigned char** images,
                  void (*write)(unsigned char*, size_t, void*), void* file) {
  (void)state, (void)width, (void)height, (void)planes, (void)images, (void)write, (void)file;
}
void jbg_enc_out(void* state) { (void)state; }
void jbg_enc_free(void* state) { (void)state; }
int jbg_newlen(unsigned char* data, size_t size) {
  (void)data, (void)size;
  return 1;
}
const char* jbg_strerror(int error) {
  (void)error;
  return "this build reads no JBIG";
}
