#include "QnnInterface.h"
int qnnBackend() {
    return 0;
}
